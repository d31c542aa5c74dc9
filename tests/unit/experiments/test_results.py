"""Results of experiments: what is written is read again, and what breaks a rule is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.errors import RunError
from iada.experiments.results import (
    Axis,
    Results,
    Row,
    Significance,
    holm_adjusted,
    join_seeds,
    moved_runs,
    read_results,
    write_results,
)


def results(**changes: Any) -> Results:
    rows = (
        Row("plain", "Plain", {"method": "doc2doc"}, ("../runs/a/1", "../runs/a/2"), {}, value=0.2),
        Row(
            key="tilted",
            label="Tilted",
            settings={"method": "iada_replace_gnorm", "augment.alpha": 3.0},
            runs=("../runs/b/1", "../runs/b/2"),
            metrics={"s_bleu": (20.0, 21.5), "pronouns": (0.5, 0.625)},
            series="curve",
            value=1.0,
            breakdown={"class": {"er": (0.1, 0.2), "sie": (0.3, 0.4)}},
            pos={"context": {"NOUN": (0.25, 0.5)}, "current": {"NOUN": (0.5, 0.25)}},
            significance={"s_bleu": Significance((0.01, 0.5), "bs:100", "plain")},
        ),
    )
    values: dict[str, Any] = {
        "experiment": "low_resource",
        "title": "Few documents",
        "data": "mini",
        "base": {"parameters": 12},
        "seeds": (1, 2),
        "baseline": "plain",
        "rows": rows,
        "axis": Axis("data.subset", (0.2, 1.0)),
    }
    return Results(**(values | changes))


@pytest.mark.parametrize(
    "whole",
    [results(), results(axis=None), results(baseline=None), results(missing=("Other",))],
)
def test_what_is_written_is_read_again(tmp_path: Path, whole: Results) -> None:
    path = write_results(tmp_path / "results.json", whole)
    assert read_results(path) == whole
    assert read_results(tmp_path) == whole
    assert whole.row("tilted").label == "Tilted"


def test_what_does_not_apply_is_absent(tmp_path: Path) -> None:
    path = write_results(tmp_path / "results.json", results())
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["format"] == 1
    assert "missing" not in content
    assert not {"breakdown", "pos", "significance"} & content["rows"][0].keys()
    assert {"breakdown", "pos", "significance"} <= content["rows"][1].keys()


def test_corrected_p_values_are_recorded_and_files_without_them_load(tmp_path: Path) -> None:
    whole = results()
    path = write_results(tmp_path / "results.json", whole)
    content = json.loads(path.read_text(encoding="utf-8"))
    found = content["rows"][1]["significance"]["s_bleu"]
    # One comparison needs no correction.
    assert found["p_holm"] == found["p"] == [0.01, 0.5]
    del found["p_holm"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert read_results(path) == whole


def test_p_values_are_corrected_within_their_seed() -> None:
    plain, tilted = results().rows
    tests = {
        "s_bleu": Significance((0.01, 0.5), "ar:9", "plain"),
        "d_bleu": Significance((0.03, 0.02), "ar:9", "plain"),
    }
    other = replace(tilted, key="other", significance={"s_bleu": tests["d_bleu"]})
    three = results(rows=(plain, replace(tilted, significance=tests), other))
    # Seed 1: 0.01 · 3, 0.03 · 2 and 0.03 · 1, not below the one before; seed 2 likewise.
    assert holm_adjusted(three) == {
        ("tilted", "s_bleu"): pytest.approx((0.03, 0.5)),
        ("tilted", "d_bleu"): pytest.approx((0.06, 0.06)),
        ("other", "s_bleu"): pytest.approx((0.06, 0.06)),
    }
    assert holm_adjusted(results(rows=(plain,))) == {}


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=2), "must be results of format 1, but is 2"),
        (lambda c: c.pop("title"), "`title` is missing"),
        (lambda c: c.update(seeds=3), "`seeds` must not be 3"),
        (lambda c: c.update(baseline="nobody"), "`baseline` is 'nobody', but there is no such row"),
        (lambda c: c["rows"].append(c["rows"][0]), "the row `plain` is there twice"),
        (lambda c: c["rows"].append(7), r"`rows\[2\]` must be an object"),
        (lambda c: c["rows"][0].pop("label"), r"`rows\[0\]\.label` is missing"),
        (lambda c: c["rows"][1]["runs"].pop(), r"`rows\[1\]\.runs` must have 2 folders, but has 1"),
        (
            lambda c: c["rows"][1]["metrics"]["s_bleu"].pop(),
            r"`rows\[1\]\.metrics\.s_bleu` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["metrics"].update(s_bleu=[1.0, float("nan")]),
            r"`rows\[1\]\.metrics\.s_bleu` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["metrics"].update(s_bleu=[True, False]),
            r"`rows\[1\]\.metrics\.s_bleu` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["breakdown"]["class"].update(er=[1.0]),
            r"breakdown\.class\.er` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["pos"].update(context=3),
            r"`rows\[1\]\.pos\.context\.` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["significance"]["s_bleu"].pop("against"),
            r"significance\.s_bleu\.p` must be a list of 2 numbers",
        ),
        (
            lambda c: c["rows"][1]["significance"].update(s_bleu=0.5),
            r"significance\.s_bleu\.p` must be a list of 2 numbers",
        ),
        (lambda c: c["rows"][1].update(value=0.4), r"`axis\.values` must hold the `value` of"),
        (lambda c: c["axis"].pop("name"), "`axis` must have a `name`"),
    ],
)
def test_what_breaks_a_rule_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    path = write_results(tmp_path / "results.json", results())
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunError, match=message) as error:
        read_results(path)
    assert str(path) in str(error.value)
    assert "Run the experiment again" in str(error.value)


def test_every_finding_is_told(tmp_path: Path) -> None:
    path = write_results(tmp_path / "results.json", results())
    content = json.loads(path.read_text(encoding="utf-8"))
    content["rows"][0]["runs"] = []
    content["rows"][1]["metrics"]["s_bleu"] = []
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunError) as error:
        read_results(path)
    assert str(error.value).count(f"{path}: ") == 2


def test_files_that_are_no_results_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"results\.json does not exist.*`iada experiment`"):
        read_results(tmp_path)
    path = tmp_path / "results.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="is not valid JSON"):
        read_results(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(RunError, match="must be results of format 1, but is 'list'"):
        read_results(path)


def split(whole: Results, *places: int) -> Results:
    """Return results with some of the seeds."""

    def some(values: Any) -> Any:
        if isinstance(values, tuple):
            return tuple(values[place] for place in places)
        return {key: some(value) for key, value in values.items()}

    rows = tuple(
        replace(
            row,
            runs=some(row.runs),
            metrics=some(row.metrics),
            breakdown=some(row.breakdown),
            pos=some(row.pos),
            significance={name: replace(f, p=some(f.p)) for name, f in row.significance.items()},
        )
        for row in whole.rows
    )
    return replace(whole, seeds=some(whole.seeds), rows=rows)


def test_seeds_that_were_run_apart_are_joined_in_their_order() -> None:
    whole = results()
    first, second = split(whole, 0), split(whole, 1)
    assert join_seeds(first, second) == whole
    assert join_seeds(second, first) == whole


def test_joined_results_keep_the_breakdowns_that_both_have() -> None:
    first, second = split(results(), 0), split(results(), 1)
    older = tuple(replace(row, breakdown={}) for row in second.rows)
    joined = join_seeds(first, replace(second, rows=older))
    assert joined is not None
    assert [row.breakdown for row in joined.rows] == [{} for _ in older]
    assert joined.rows[1].metrics == results().rows[1].metrics


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": (1,)},
        {"data": "other"},
        {"base": {"parameters": 13}},
        {"baseline": None},
        {"rows": split(results(), 1).rows[:1]},
        {"rows": (split(results(), 1).rows[0], replace(split(results(), 1).rows[1], pos={}))},
    ],
)
def test_what_does_not_belong_together_is_not_joined(change: dict[str, Any]) -> None:
    first, second = split(results(), 0), split(results(), 1)
    assert join_seeds(first, second) is not None
    assert join_seeds(first, replace(second, **change)) is None


def test_runs_of_joined_results_are_found(tmp_path: Path) -> None:
    moved = moved_runs(results(), tmp_path / "b" / "main", tmp_path / "a" / "main")
    assert moved.rows[0].runs == ("../../b/runs/a/1", "../../b/runs/a/2")
