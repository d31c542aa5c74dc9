"""Messages are text: nothing in them reaches the terminal as a control sequence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iada.data.documents import Document
from iada.data.formats.findings import Findings
from iada.errors import DataError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünïcödé 中文\u00a0text", "plain Ünïcödé 中文\u00a0text"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\r\tb\x9b0m", r"a\r\tb\x9b0m"),
        ("\u202egnp.exe\ufeff\u2028", r"\u202egnp.exe\ufeff\u2028"),
        ("half \ud800", r"half \ud800"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert str(DataError(text)) == shown


@given(st.text())
def test_what_is_shown_can_be_encoded_and_holds_no_escape(text: str) -> None:
    shown = printable(text).encode()
    assert not {*shown} & {*range(10), *range(11, 32), 127}
    assert printable(printable(text)) == printable(text)


def test_names_and_findings_are_single_lines() -> None:
    assert Document("a\x1b[2J\nb", ()).name == r"a\x1b[2J\nb"
    findings = Findings()
    findings.report("nul", Path("f"), 1, "document \x1b]0;x\x07 is\nodd")
    assert r"document \x1b]0;x\x07 is\nodd" in findings.table()
