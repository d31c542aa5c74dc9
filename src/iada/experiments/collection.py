"""From finished runs to the results of an experiment."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iada.analysis.measure_agreement import agreement_of_run
from iada.analysis.parts_of_speech import shares_of_run
from iada.config.base import flatten, to_mapping
from iada.decoding.files import translations_name
from iada.evaluation.metrics import METRICS, RunRecord, main_metrics
from iada.evaluation.score_files import compare_split
from iada.experiments.grid import Base, Grid
from iada.experiments.plan import Experiment, PlannedRow, System
from iada.experiments.results import Axis, Groups, Results, Row, Significance, Values
from iada.experiments.scheduler import Job
from iada.runs.folder import RunFolder


def collect(
    experiment: Experiment, grid: Grid, base: Base, seeds: Sequence[int], folder: Path
) -> Results:
    """Gather the scores of an experiment; rows with an unfinished run are named and left out.

    Args:
        experiment: with its rows.
        grid: their runs.
        base: corpus and settings.
        seeds: of each row.
        folder: where the results will be written; paths of runs are relative to it.
    """
    planned = [
        row
        for row in experiment.rows
        if all(job.is_finished() for job in grid.runs(row.system, seeds))
    ]
    jobs = {row.key: grid.runs(row.system, seeds) for row in planned}
    tests = _tests(planned, jobs)
    rows = tuple(
        replace(_row(row, jobs[row.key], experiment, base, folder), significance=tests[row.key])
        for row in planned
    )
    missing = tuple(row.label for row in experiment.rows if row.key not in jobs)
    positions = sorted({row.value for row in rows if row.value is not None})
    return Results(
        experiment=experiment.name,
        title=experiment.title,
        data=base.name,
        base=_shared((jobs.get(experiment.baseline) or jobs[rows[0].key])[0]) if rows else {},
        seeds=tuple(seeds),
        baseline=experiment.baseline if experiment.baseline in jobs else None,
        rows=rows,
        axis=None if experiment.axis is None else Axis(experiment.axis, tuple(positions)),
        missing=missing,
    )


def _row(
    planned: PlannedRow, jobs: Sequence[Job], experiment: Experiment, base: Base, folder: Path
) -> Row:
    scores = [_scores(job) for job in jobs]
    breakdown = _accuracies(scores)
    if experiment.compares_measures:
        found = [agreement_of_run(job.folder, job.contrastive_set) for job in jobs]
        breakdown |= {
            question: _in_all([run.get(question, {}) for run in found]) for question in found[0]
        }
    if "costs" in experiment.tables:
        breakdown["cost"] = _cost(jobs)
    pos = _transposed([shares_of_run(job.folder) for job in jobs]) if experiment.has_pos else {}
    return Row(
        key=planned.key,
        label=planned.label,
        settings=_settings(planned, jobs[0], base),
        runs=tuple(Path(os.path.relpath(job.folder, folder)).as_posix() for job in jobs),
        metrics=_metrics(jobs, scores),
        series=planned.series,
        value=planned.value,
        breakdown=breakdown,
        pos=pos,
    )


def _settings(planned: PlannedRow, job: Job, base: Base) -> dict[str, Any]:
    """Return the method and the keys in which a row differs from it."""
    usual = flatten(to_mapping(base.run_config(planned.system.method)))
    found = flatten(to_mapping(job.config))
    settings: dict[str, Any] = {"method": planned.system.method}
    settings |= {key: found[key] for key, _ in planned.system.changes if found[key] != usual[key]}
    if planned.system.synthetic is not None:
        settings["synthetic"] = planned.system.synthetic
    if planned.system.start is not None:
        settings["start"] = describe_system(planned.system.start)
    return settings


def describe_system(system: System) -> str:
    """Name a system by its method and the keys that differ from it."""
    return ", ".join([system.method, *(f"{key}: {value}" for key, value in system.changes)])


def _scores(job: Job) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        RunFolder(job.folder).scores_file.read_text(encoding="utf-8")
    )
    return content


def _metrics(jobs: Sequence[Job], scores: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """Return every metric that all runs have, with one value per run."""
    records = [RunRecord(found, _log(job)) for job, found in zip(jobs, scores, strict=True)]
    metrics: dict[str, Values] = {}
    for metric in main_metrics():
        values = [metric.value(record) for record in records]
        present = tuple(value for value in values if value is not None)
        if len(present) == len(values):
            metrics[metric.key] = present
    return metrics


def _log(job: Job) -> list[dict[str, Any]]:
    lines = RunFolder(job.folder).metrics_file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _accuracy(counts: Mapping[str, int]) -> float:
    return counts["correct"] / counts["total"]


def _accuracies(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Values]]:
    """Return the accuracy by class and by distance; nothing without a contrastive set."""
    accuracies = {}
    for kind in ("class", "distance"):
        tallies = [found.get("contrastive", {}).get(f"by_{kind}", {}) for found in scores]
        by_run = [{group: _accuracy(n) for group, n in tally.items()} for tally in tallies]
        if groups := _in_all(by_run):
            accuracies[kind] = groups
    return accuracies


def _in_all(runs: Sequence[Mapping[str, float]]) -> dict[str, Values]:
    """Return lists with one value per run, of what all runs have."""
    names = (name for name in runs[0] if all(name in run for run in runs))
    return {name: tuple(run[name] for run in runs) for name in names}


def _transposed(runs: Sequence[Mapping[str, Mapping[str, float]]]) -> Groups:
    """Turn shares of each run by place and tag into lists with one share per run."""
    return {
        place: {
            # A tag that a run never perturbed has no share there.
            tag: tuple(run[place].get(tag, 0.0) for run in runs)
            for tag in dict.fromkeys(tag for run in runs for tag in run[place])
        }
        for place in runs[0]
    }


def _tests(
    rows: Sequence[PlannedRow], jobs: Mapping[str, Sequence[Job]]
) -> dict[str, dict[str, Significance]]:
    """Compare rows with the one each is against, seed by seed, all rows of one at once."""
    found: dict[str, dict[str, Significance]] = {row.key: {} for row in rows}
    for other in dict.fromkeys(row.against for row in rows if row.against in jobs):
        assert other is not None
        keys = [row.key for row in rows if row.against == other]
        by_seed = [
            _compared({key: jobs[key][number] for key in (other, *keys)}, other)
            for number in range(len(jobs[other]))
        ]
        for key in keys:
            tested = (metric.key for metric in METRICS.values() if metric.is_tested)
            for metric in (metric for metric in tested if metric in by_seed[0]):
                p = tuple(float(one[metric]["systems"][key]["p_value"]) for one in by_seed)
                signature = str(by_seed[0][metric]["signature"])
                found[key][metric] = Significance(p, signature, other)
    return found


def _compared(jobs: Mapping[str, Job], other: str) -> dict[str, Any]:
    config = jobs[other].config
    paths = {
        key: RunFolder(job.folder).translations / translations_name(job.config.data)
        for key, job in jobs.items()
    }
    compared = compare_split(paths, config.data, "test", baseline=other, config=config.evaluate)
    significance = compared["significance"]
    assert isinstance(significance, dict)
    return significance


def _cost(jobs: Sequence[Job]) -> dict[str, Values]:
    """Return what runs have cost: parameters that learn, updates, and minutes with validation."""
    last = [_log(job)[-1] for job in jobs]
    return {
        "parameters": (float(_parameters(jobs[0])),) * len(jobs),
        "updates": tuple(float(line["update"]) for line in last),
        "minutes": tuple(line["seconds"] / 60 for line in last),
    }


def _parameters(job: Job) -> int:
    """Return the number of parameters of a run that learn."""
    import torch

    from iada.data.tokens.pretrained_subwords import load_subwords
    from iada.models.pretrained import build_shape

    trained = RunFolder(job.folder).trained_model()
    with torch.device("meta"):
        model = build_shape(job.config, load_subwords(trained), trained)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _shared(job: Job) -> dict[str, Any]:
    """Describe what the runs have in common, from one of them."""
    from iada.data.tokens.pretrained_subwords import load_subwords

    scores = _scores(job)
    translation = scores["translation"]
    signatures = dict(filter(None, (metric.signature(scores) for metric in main_metrics())))
    return {
        "parameters": _parameters(job),
        "vocabulary": len(load_subwords(RunFolder(job.folder).trained_model())),
        "updates": job.config.train.max_updates,
        "context": job.config.windows.context,
        "engine": translation["engine"],
        "beam": translation["beam"],
        "test_documents": translation["documents"],
        "test_sentences": translation["sentences"],
        "signatures": signatures,
    }
