"""Findings: all counted, few kept, every one logged, and refused together."""

import io
import json
from pathlib import Path
from typing import get_args

import pytest

from iada.data.formats.findings import REPAIRS, WARNINGS, Finding, Findings, Kind, Tally, problem
from iada.errors import DataError

FILE = Path("train.en")


def test_only_the_first_of_each_kind_stay_but_all_are_counted_and_logged() -> None:
    log = io.StringIO()
    findings = Findings(log, examples_per_kind=2)
    for line in range(1, 1001):
        findings.report("nul", FILE, line, "contains a NUL character.")
    assert findings.counts == {"nul": 1000}
    assert [finding.line for finding in findings.examples("nul")] == [1, 2]
    logged = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [entry["line"] for entry in logged] == list(range(1, 1001))
    assert logged[0] == {
        "kind": "nul",
        "severity": "error",
        "file": "train.en",
        "line": 1,
        "message": "contains a NUL character.",
        "dropped": 0,
    }


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_kind_is_an_error_unless_nothing_is_lost(kind: Kind) -> None:
    findings = Findings()
    findings.add(problem(kind, FILE, 1, "m"))
    counts = (findings.errors, findings.repairs, findings.warnings)
    assert counts == (kind not in WARNINGS | REPAIRS, kind in REPAIRS, kind in WARNINGS)


def test_strict_findings_raise_the_first_error_and_count_the_rest() -> None:
    findings = Findings(refuse=True)
    findings.report("carriage_return", FILE, 1, "removed.")
    findings.report("odd_separator", FILE, 2, "kept.")
    with pytest.raises(DataError, match=r"^train\.en:3: contains a NUL character\.$"):
        findings.report("nul", FILE, 3, "contains a NUL character.")
    assert findings.counts == {"carriage_return": 1, "odd_separator": 1}


def test_a_kind_can_be_both_repair_and_warning() -> None:
    findings = Findings()
    findings.add(Finding("byte_order_mark", "warning", FILE, 2, "kept"))
    findings.report("byte_order_mark", FILE, 1, "removed")
    assert findings.counts == {"byte_order_mark": 2}
    assert [f.message for f in findings.examples("byte_order_mark")] == ["removed", "kept"]
    assert (findings.errors, findings.repairs, findings.warnings) == (0, 1, 1)


def test_a_document_that_is_left_out_is_counted_once_for_all_its_problems() -> None:
    log = io.StringIO()
    findings = Findings(log)
    problems = [problem("bad_utf8", FILE, 3, "m"), problem("bad_utf8", FILE, 4, "m")]
    findings.drop(problems, source=5, target=6)
    assert (findings.source.dropped, findings.target.dropped) == (5, 6)
    assert [json.loads(line)["dropped"] for line in log.getvalue().splitlines()] == [11, 0]


@pytest.mark.parametrize(
    ("tally", "balances"),
    [
        (Tally(), True),
        (Tally(read=10, kept=5, dropped=3, boundaries=2), True),
        (Tally(read=10, kept=5, dropped=3, boundaries=1), False),
        (Tally(read=9, kept=5, dropped=3, boundaries=2), False),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_units_must_add_up(tally: Tally, balances: bool, side: str) -> None:
    findings = Findings()
    setattr(findings, side, tally)
    assert tally.balances == balances
    if balances:
        findings.verify_tallies()
    else:
        with pytest.raises(AssertionError, match=f"the {side} side does not add up"):
            findings.verify_tallies()


def test_warnings_are_not_refused() -> None:
    findings = Findings()
    findings.report("length_ratio", FILE, 1, "m")
    findings.refuse_errors()
    assert (findings.errors, findings.warnings) == (0, 1)


def test_a_single_error_is_refused_in_one_line() -> None:
    findings = Findings()
    findings.report("nul", FILE, 7, "contains a NUL character.")
    with pytest.raises(DataError, match=r"^train\.en:7: contains a NUL character\.$"):
        findings.refuse_errors()


def test_all_kinds_of_errors_are_refused_together() -> None:
    findings = Findings()
    findings.report("nul", FILE, 7, "first nul.")
    findings.report("length_ratio", FILE, 8, "only a warning.")
    findings.report("nul", FILE, 9, "second nul.")
    findings.report("empty_document", FILE, None, "empty.")
    with pytest.raises(DataError) as refused:
        findings.refuse_errors()
    assert str(refused.value).split("\n") == [
        "The corpus has 3 problems. The first of each kind:",
        "train.en:7: first nul. (nul, 2)",
        "train.en: empty. (empty_document, 1)",
    ]


def test_the_table_shows_kinds_counts_places_and_units() -> None:
    findings = Findings(examples_per_kind=2)
    for line in (4, 5, 6):
        findings.report("shared_sentence", FILE, line, "also in dev.")
    findings.report("nul", FILE, 9, "has a NUL.")
    findings.source = Tally(read=3, kept=1, dropped=1, boundaries=1)
    head, *rows = findings.table().split("\n")
    assert head.split() == ["kind", "severity", "count", "examples"]
    assert rows[0].split() == ["nul", "error", "1", "train.en:9:", "has", "a", "NUL."]
    assert rows[1].split()[:4] == ["shared_sentence", "warning", "3", "train.en:4:"]
    assert rows[2].strip() == "train.en:5: also in dev."
    assert rows[3] == "source: 3 units read = 1 kept + 1 dropped + 1 boundaries"
    assert rows[4] == "target: 0 units read = 0 kept + 0 dropped + 0 boundaries"


def test_nothing_found_is_said_too() -> None:
    assert Findings().table().startswith("No findings.\nsource: 0 units")


def test_the_summary_is_json() -> None:
    findings = Findings()
    findings.drop([problem("bad_utf8", FILE, 3, "m")], source=2, target=1)
    findings.keep(4)
    summary = json.loads(json.dumps(findings.summary()))
    assert summary["errors"] == 1
    assert summary["warnings"] == 0
    (kind,) = summary["kinds"]
    assert (kind["kind"], kind["severity"], kind["count"]) == ("bad_utf8", "error", 1)
    assert kind["examples"][0]["dropped"] == 3
    assert summary["units"]["source"] == {"read": 0, "kept": 4, "dropped": 2, "boundaries": 0}
    assert summary["units"]["target"]["dropped"] == 1


def test_what_cannot_be_encoded_can_still_be_logged() -> None:
    log = io.StringIO()
    Findings(log).report("lone_surrogate", FILE, 1, "\ud800")
    assert log.getvalue().isascii()
