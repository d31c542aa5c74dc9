"""The results of an experiment: what `results.json` holds, written and read with its rules checked.

An experiment has rows, a row has one run per seed, and every list of values has one entry per
seed, in the order of `Results.seeds`. BLEU, chrF and COMET are in points; accuracies and shares
lie between 0 and 1; the validation NLL is per token. What does not apply to a row is absent.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iada.errors import RunError
from iada.evaluation.significance import holm
from iada.storage import read_json, write_text

FORMAT = 1
"""Version of the file; readers refuse any other."""
RESULTS_FILE = "results.json"
"""Name of the file in the folder of an experiment."""
Values = tuple[float, ...]
"""One value per seed."""
Groups = Mapping[str, Mapping[str, Values]]
"""Values by kind and group, for example `class` and `er`, or `context` and `NOUN`."""


@dataclass(frozen=True)
class Axis:
    """What the rows of a curve are ordered by."""

    name: str
    """Configuration key that varies, for example `data.subset`."""
    values: Values
    """Positions on the axis, ascending."""


@dataclass(frozen=True)
class Significance:
    """A row against another one, run against run of the same seed."""

    p: Values
    """p-values, one per seed, not corrected; see `holm_adjusted`."""
    test: str
    """Signature of the test: its name, draws, seed and unit."""
    against: str
    """Key of the other row: the baseline, or its like at the same place of the axis or series."""


@dataclass(frozen=True)
class Row:
    """One system."""

    key: str
    """Name of the row, unique in its experiment."""
    label: str
    """What tables and legends say."""
    settings: Mapping[str, Any]
    """`method`, and the keys in which the row differs from the method and the base."""
    runs: tuple[str, ...]
    """Run folders, one per seed, relative to the folder of the results file."""
    metrics: Mapping[str, Values]
    """Scores by metric."""
    series: str | None = None
    """Curve or group to which the row belongs."""
    value: float | None = None
    """Position on the axis."""
    breakdown: Groups = field(default_factory=dict)
    """Contrastive accuracy by `class` and `distance`, and what else has parts: `cost`, ..."""
    pos: Groups = field(default_factory=dict)
    """Shares of the perturbed tokens by tag, in `context` and `current`."""
    significance: Mapping[str, Significance] = field(default_factory=dict)
    """Tests by metric; none for a row that others are compared with."""


@dataclass(frozen=True)
class Results:
    """One experiment on one corpus."""

    experiment: str
    title: str
    data: str
    """Name of the corpus."""
    base: Mapping[str, Any]
    """What all rows share: number of parameters, updates, size of the vocabulary, signatures."""
    seeds: tuple[int, ...]
    baseline: str | None
    """Key of the row that the others are compared with."""
    rows: tuple[Row, ...]
    axis: Axis | None = None
    missing: tuple[str, ...] = ()
    """Labels of rows that are left out because a run of theirs failed."""

    def row(self, key: str) -> Row:
        """Return the row of a key; `KeyError` if there is none."""
        found = {row.key: row for row in self.rows}
        return found[key]


def holm_adjusted(results: Results) -> dict[tuple[str, str], Values]:
    """Correct the p-values of a table for their number, by row and metric.

    The family of a p-value is every comparison of its seed: all rows and metrics that were tested.
    """
    tests = {
        (row.key, metric): found.p
        for row in results.rows
        for metric, found in row.significance.items()
    }
    by_seed = [holm(p_values) for p_values in zip(*tests.values(), strict=True)]
    return {key: tuple(seed[place] for seed in by_seed) for place, key in enumerate(tests)}


def join_seeds(first: Results, second: Results) -> Results | None:
    """Join results of one experiment that were found with different seeds.

    They may come from several machines or days: every value belongs to a seed, and so does every
    test.

    Args:
        first: results.
        second: others, with folders of runs relative to the same place.

    Returns:
        All seeds in ascending order, with the breakdowns that both have, or None if the two do not
        belong together: another experiment, corpus, setting, row or test, or a seed that both have.
    """
    seeds = first.seeds + second.seeds
    order = sorted(range(len(seeds)), key=lambda place: seeds[place])
    if _frame(first) != _frame(second) or len(set(seeds)) < len(seeds):
        return None

    def joined(one: Values, other: Values) -> Values:
        values = one + other
        return tuple(values[place] for place in order)

    def joined_groups(one: Groups, other: Groups) -> Groups:
        return {
            kind: {
                group: joined(values, other[kind][group])
                for group, values in groups.items()
                if group in other[kind]
            }
            for kind, groups in one.items()
            if kind in other
        }

    rows = []
    for one, other in zip(first.rows, second.rows, strict=True):
        runs = one.runs + other.runs
        rows.append(
            replace(
                one,
                runs=tuple(runs[place] for place in order),
                metrics={name: joined(v, other.metrics[name]) for name, v in one.metrics.items()},
                breakdown=joined_groups(one.breakdown, other.breakdown),
                pos=joined_groups(one.pos, other.pos),
                significance={
                    name: replace(found, p=joined(found.p, other.significance[name].p))
                    for name, found in one.significance.items()
                },
            )
        )
    return replace(first, seeds=tuple(seeds[place] for place in order), rows=tuple(rows))


def _frame(results: Results) -> Results:
    """Return what does not depend on seeds: the same results without any value."""

    def emptied(groups: Groups) -> Groups:
        return {kind: dict.fromkeys(by_group, ()) for kind, by_group in groups.items()}

    rows = tuple(
        replace(
            row,
            runs=(),
            metrics=dict.fromkeys(row.metrics, ()),
            breakdown={},
            pos=emptied(row.pos),
            significance={name: replace(found, p=()) for name, found in row.significance.items()},
        )
        for row in results.rows
    )
    return replace(results, seeds=(), rows=rows)


def moved_runs(results: Results, old: Path, new: Path) -> Results:
    """Name the folders of runs from another place than that of the results file."""

    def moved(run: str) -> str:
        return Path(os.path.relpath(old / run, new)).as_posix()

    rows = tuple(replace(row, runs=tuple(map(moved, row.runs))) for row in results.rows)
    return replace(results, rows=rows)


def write_results(path: Path, results: Results) -> Path:
    """Write the file; readers see the old content or the new one, never a part."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "experiment": results.experiment,
        "title": results.title,
        "data": results.data,
        "base": dict(results.base),
        "seeds": list(results.seeds),
        "baseline": results.baseline,
        "rows": [_row_content(row, holm_adjusted(results)) for row in results.rows],
        "axis": results.axis and {"name": results.axis.name, "values": list(results.axis.values)},
    }
    if results.missing:
        content["missing"] = list(results.missing)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def read_results(path: Path) -> Results:
    """Read the results of an experiment.

    Args:
        path: the file, or the folder that holds it.

    Raises:
        RunError: with one line for everything that breaks a rule.
    """
    file = path / RESULTS_FILE if path.is_dir() else path
    try:
        content = read_json(file)
    except FileNotFoundError:
        raise RunError(f"{file} does not exist. Write it with `iada experiment`.") from None
    except ValueError as error:
        raise RunError(f"{file} is not valid JSON ({error}). Run the experiment again.") from None
    findings = _findings(content)
    if findings:
        lines = "\n".join(f"{file}: {finding}" for finding in findings)
        raise RunError(f"{lines}\nRun the experiment again with this version of iada.")
    axis = content["axis"]
    return Results(
        experiment=content["experiment"],
        title=content["title"],
        data=content["data"],
        base=content["base"],
        seeds=tuple(content["seeds"]),
        baseline=content["baseline"],
        rows=tuple(_row(row) for row in content["rows"]),
        axis=axis and Axis(axis["name"], tuple(axis["values"])),
        missing=tuple(content.get("missing", ())),
    )


def _row_content(row: Row, adjusted: Mapping[tuple[str, str], Values]) -> dict[str, Any]:
    content: dict[str, Any] = {
        "key": row.key,
        "label": row.label,
        "series": row.series,
        "value": row.value,
        "settings": dict(row.settings),
        "runs": list(row.runs),
        "metrics": {name: list(values) for name, values in row.metrics.items()},
    }
    for name, groups in (("breakdown", row.breakdown), ("pos", row.pos)):
        if groups:
            content[name] = {
                kind: {group: list(values) for group, values in by_group.items()}
                for kind, by_group in groups.items()
            }
    if row.significance:
        content["significance"] = {
            metric: {
                "p": list(found.p),
                # Follows from all `p` of the file; for readers that have no Holm at hand.
                "p_holm": list(adjusted[row.key, metric]),
                "test": found.test,
                "against": found.against,
            }
            for metric, found in row.significance.items()
        }
    return content


def _row(content: Mapping[str, Any]) -> Row:
    return Row(
        key=content["key"],
        label=content["label"],
        series=content["series"],
        value=content["value"],
        settings=content["settings"],
        runs=tuple(content["runs"]),
        metrics={name: tuple(values) for name, values in content["metrics"].items()},
        breakdown=_groups(content.get("breakdown", {})),
        pos=_groups(content.get("pos", {})),
        significance={
            metric: Significance(tuple(found["p"]), found["test"], found["against"])
            for metric, found in content.get("significance", {}).items()
        },
    )


def _groups(content: Mapping[str, Any]) -> Groups:
    return {
        kind: {group: tuple(values) for group, values in by_group.items()}
        for kind, by_group in content.items()
    }


def _findings(content: Any) -> list[str]:
    """Say everything that is wrong with the content of a file."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        return [f"must be results of format {FORMAT}, but is {found!r}."]
    kinds: dict[str, type | tuple[type, ...]] = {
        "experiment": str,
        "title": str,
        "data": str,
        "base": dict,
        "seeds": list,
        "baseline": (str, type(None)),
        "rows": list,
        "axis": (dict, type(None)),
    }
    findings = _wrong_kinds(content, kinds, "")
    if findings:
        return findings
    for number, row in enumerate(content["rows"]):
        findings += _row_findings(row, f"rows[{number}].", len(content["seeds"]))
    if findings:
        return findings
    keys = [row["key"] for row in content["rows"]]
    findings += [f"the row `{key}` is there twice." for key in set(keys) if keys.count(key) > 1]
    baseline = content["baseline"]
    if baseline is not None and baseline not in keys:
        findings.append(f"`baseline` is {baseline!r}, but there is no such row.")
    axis = content["axis"]
    if axis is not None:
        if not isinstance(axis.get("name"), str) or not _are_numbers(axis.get("values")):
            findings.append("`axis` must have a `name` and a list of numbers, `values`.")
        elif not {row["value"] for row in content["rows"]} <= {None, *axis["values"]}:
            findings.append("`axis.values` must hold the `value` of every row.")
    return findings


def _row_findings(row: Any, where: str, seeds: int) -> list[str]:
    if not isinstance(row, dict):
        return [f"`{where[:-1]}` must be an object."]
    kinds: dict[str, type | tuple[type, ...]] = {
        "key": str,
        "label": str,
        "series": (str, type(None)),
        "value": (int, float, type(None)),
        "settings": dict,
        "runs": list,
        "metrics": dict,
    }
    findings = _wrong_kinds(row, kinds, where)
    optional = {name: row.get(name, {}) for name in ("breakdown", "pos", "significance")}
    findings += _wrong_kinds(optional, dict.fromkeys(optional, dict), where)
    if findings:
        return findings
    if len(row["runs"]) != seeds:
        findings.append(f"`{where}runs` must have {seeds} folders, but has {len(row['runs'])}.")
    lists = {f"metrics.{name}": values for name, values in row["metrics"].items()}
    for name in ("breakdown", "pos"):
        for kind, by_group in optional[name].items():
            groups = by_group.items() if isinstance(by_group, dict) else [("", None)]
            lists |= {f"{name}.{kind}.{group}": values for group, values in groups}
    for metric, found in optional["significance"].items():
        texts = (found.get(key) for key in ("test", "against")) if isinstance(found, dict) else [0]
        whole = all(isinstance(text, str) for text in texts)
        lists[f"significance.{metric}.p"] = found.get("p") if whole else None
    for name, values in lists.items():
        if not _are_numbers(values) or len(values) != seeds:
            findings.append(f"`{where}{name}` must be a list of {seeds} numbers, one per seed.")
    return findings


def _wrong_kinds(
    content: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]], where: str
) -> list[str]:
    missing = [f"`{where}{name}` is missing." for name in kinds if name not in content]
    return missing + [
        f"`{where}{name}` must not be {content[name]!r}."
        for name, kind in kinds.items()
        if name in content and not isinstance(content[name], kind)
    ]


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values
    )
