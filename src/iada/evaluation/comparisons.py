"""Systems against a baseline, in the form that `scores.json` keeps."""

from collections.abc import Mapping
from dataclasses import asdict

from iada.config.evaluate import EvaluateConfig
from iada.evaluation.levels import Level
from iada.evaluation.significance import Comparison, paired_bootstrap, paired_randomization
from iada.evaluation.sufficient_statistics import Measurement


def compare(level: Level, config: EvaluateConfig) -> dict[str, dict[str, object]]:
    """Compare every system of a level with the first one, the baseline.

    Returns:
        For each metric its `signature` with test, number of draws, seed and unit; the number of
        `units`; `systems` with difference, p-value and what else the test gives. The bootstrap adds
        the `intervals` of every system's own score.
    """
    measurements = list(level.metrics.values())
    if config.test == "bootstrap":
        label = "bs"
        results = paired_bootstrap(measurements, resamples=config.resamples, seed=config.seed)
        comparisons = [result.comparisons for result in results]
        extras: list[Mapping[str, object]] = [
            {
                "intervals": {
                    name: asdict(interval)
                    for name, interval in zip(level.names, result.intervals, strict=True)
                }
            }
            for result in results
        ]
    else:
        label = "ar"
        comparisons = paired_randomization(measurements, trials=config.resamples, seed=config.seed)
        extras = [{} for _ in measurements]
    suffix = f"{label}:{config.resamples}|seed:{config.seed}|unit:{level.unit}"
    return {
        name: {
            "signature": f"{measurement.signature}|{suffix}",
            "units": len(measurement.systems[0]),
            "systems": _by_name(level, found),
            **extra,
        }
        for (name, measurement), found, extra in zip(
            level.metrics.items(), comparisons, extras, strict=True
        )
    }


def _by_name(level: Level, found: tuple[Comparison, ...]) -> dict[str, dict[str, object]]:
    return {
        name: {key: value for key, value in asdict(comparison).items() if value is not None}
        for name, comparison in zip(level.names[1:], found, strict=True)
    }


def score_of(metric: Measurement, number: int) -> dict[str, object]:
    """Return the score of a system with its signature."""
    return {"score": metric.score(number), "signature": metric.signature}
