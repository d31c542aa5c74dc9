"""Time of the paired bootstrap, beside sacreBLEU's on the same translations.

    python benchmarks/significance.py [--sentences 5000] [--systems 4] [--resamples 10000]

Systems are seeded corruptions of generated references, so that nothing has to be downloaded. Both
sides test BLEU and chrF by sentences. Counting n-grams, which sacreBLEU does for both, is timed
apart from resampling. sacreBLEU draws fewer resamples, because its memory grows with them, and its
CPU time is scaled up to the same number. p-values are compared at that smaller number. Last, both
tests are tried on pairs of systems that are equally good by construction: a sound test calls 5% of
them different at p <= 0.05.
"""

import json
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from iada.config.evaluate import EvaluateConfig
from iada.evaluation.significance import (
    measure_bleu,
    measure_chrf,
    paired_bootstrap,
    paired_randomization,
)

SEED = 12_345
Result = TypeVar("Result")


@dataclass(frozen=True)
class Seconds:
    """How long something took."""

    wall: float
    cpu: float
    """Of all threads; what other programs do meanwhile hardly changes it."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    sentences: int = 5000
    """Test units."""
    systems: int = 4
    """Systems, the baseline included."""
    resamples: int = 10_000
    """Draws of ours."""
    peer_resamples: int = 200
    """Draws of sacreBLEU."""
    equal_pairs: int = 400
    """Pairs of equally good systems to try the tests on."""
    output: Path = Path("benchmarks/results/significance.json")
    """Where the numbers go."""


def main(options: Options) -> None:
    references, systems = translations(options)
    config = EvaluateConfig()
    counting, measurements = timed(
        lambda: [
            measure_bleu(systems, references, config),
            measure_chrf(systems, references, config),
        ]
    )
    draws = options.resamples
    bootstrap, _ = timed(lambda: paired_bootstrap(measurements, resamples=draws, seed=SEED))
    randomization, _ = timed(lambda: paired_randomization(measurements, trials=draws, seed=SEED))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    fewer = options.peer_resamples
    peer, expected = timed(lambda: peer_test(references, systems, fewer))
    found = paired_bootstrap(measurements, resamples=fewer, seed=SEED)
    gap = max(
        abs(comparison.p_value - p_value)
        for result, p_values in zip(found, expected, strict=True)
        for comparison, p_value in zip(result.comparisons, p_values, strict=True)
    )
    # What sacreBLEU spends on counting is not resampling.
    scaled = (peer.cpu - counting.cpu) * draws / fewer
    results = {
        "options": asdict(options) | {"output": str(options.output)},
        "counting": asdict(counting),
        "bootstrap": asdict(bootstrap),
        "randomization": asdict(randomization),
        "peak_megabytes": round(memory),
        "sacrebleu": asdict(peer),
        "sacrebleu_resampling_cpu_scaled": round(scaled, 1),
        "largest_p_value_difference": gap,
        "equal_systems_called_different": equal_systems(options.equal_pairs),
    }
    print(json.dumps(results, indent=2))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def timed(work: Callable[[], Result]) -> tuple[Seconds, Result]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return (
        Seconds(round(time.perf_counter() - wall, 2), round(time.process_time() - cpu, 2)),
        result,
    )


def translations(options: Options) -> tuple[list[str], list[list[str]]]:
    """Make references, and systems with 20% of the words replaced, the first a little more."""
    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(5000)]
    references = [
        " ".join(draw.choices(words, k=draw.randint(8, 40))) for _ in range(options.sentences)
    ]
    systems = []
    for number in range(options.systems):
        share = 0.205 if number == 0 else 0.2
        systems.append(
            [
                " ".join(draw.choice(words) if draw.random() < share else w for w in line.split())
                for line in references
            ]
        )
    return references, systems


def equal_systems(pairs: int) -> dict[str, float]:
    """Return the share of equally good pairs (BLEU, 200 sentences) with p <= 0.05, by test."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(200)]
    found = {"bootstrap": 0, "randomization": 0}
    for seed in range(1, pairs + 1):
        references = [" ".join(draw.choices(words, k=draw.randint(5, 25))) for _ in range(200)]
        systems = [
            [
                " ".join(draw.choice(words) if draw.random() < 0.3 else w for w in line.split())
                for line in references
            ]
            for _ in range(2)
        ]
        measurements = [measure_bleu(systems, references, EvaluateConfig())]
        (bootstrap,) = paired_bootstrap(measurements, resamples=500, seed=seed)
        ((randomized,),) = paired_randomization(measurements, trials=500, seed=seed)
        found["bootstrap"] += bootstrap.comparisons[0].p_value <= 0.05
        found["randomization"] += randomized.p_value <= 0.05
    return {name: count / pairs for name, count in found.items()} if pairs else {}


def peer_test(references: list[str], systems: list[list[str]], resamples: int) -> list[list[float]]:
    """Return the p-values of sacreBLEU for each metric and system."""
    named: list[tuple[str, Sequence[str]]] = [
        (str(number), texts) for number, texts in enumerate(systems)
    ]
    metrics = {"BLEU": BLEU(), "chrF2": CHRF()}
    test = PairedTest(named, metrics, [references], test_type="bs", n_samples=resamples)
    _, scores = test()
    rows: dict[str, Any] = scores
    return [[row.p_value for row in rows[name][1:]] for name in metrics]


if __name__ == "__main__":
    main(tyro.cli(Options))
