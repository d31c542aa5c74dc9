"""The page on data formats shows files that can be read, and names every kind of finding."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from iada.config.data import FileFormat
from iada.data.formats.findings import Kind, severity_of

Read = Callable[..., Any]
PAGE = (Path(__file__).parents[4] / "docs" / "data-formats.md").read_text(encoding="utf-8")
LETTER = [("My lamp broke.", "Meine Lampe ist kaputt."), ("I liked it.", "Ich mochte sie.")]


def examples(heading: str) -> list[str]:
    """The code blocks below a heading, up to the next one."""
    _, _, rest = PAGE.partition(f"### {heading}\n")
    section = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"```\w*\n(.*?)```", section, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("heading", "place", "name", "expected"),
    [
        ("TSV", 0, "t.tsv", [LETTER, [("Dear Anna!", "Liebe Anna!")]]),
        ("JSON lines", 0, "t.jsonl", [LETTER, [("Dear Anna!", "Liebe Anna!")]]),
        ("JSON lines", 2, "t.jsonl", [LETTER]),
        ("SGM and XML", 1, "t.xml", [LETTER]),
        ("TMX and XLIFF", 0, "t.tmx", [LETTER]),
        ("TMX and XLIFF", 1, "t.xlf", [LETTER]),
        ("PO catalogues", 0, "t.po", [LETTER]),
        (
            "Dialogues",
            0,
            "t.json",
            [[("How can I help you?", "Wie kann ich Ihnen helfen?"), LETTER[0]]],
        ),
    ],
)
def test_the_files_that_are_shown_can_be_read(
    read: Read, heading: str, place: int, name: str, expected: Any
) -> None:
    outcome = read(name, {name: examples(heading)[place]})
    assert outcome.documents == expected
    assert outcome.log == []


def test_the_csv_and_the_pairs_that_are_shown_can_be_read(read: Read) -> None:
    settings, content = examples("CSV and other columns")
    columns = yaml.safe_load(settings)["data"]
    assert columns.pop("train").endswith(".csv")
    outcome = read("t.csv", {"t.csv": content}, **columns)
    assert outcome.documents == [[("Hello, Anna!", "Hallo, Anna!"), LETTER[0]]]
    content = examples("JSON lines")[1]
    outcome = read("t.jsonl", {"t.jsonl": content}, boundaries="none")
    assert outcome.documents == [LETTER]


def test_the_sgm_that_is_shown_can_be_read(read: Read) -> None:
    shown = examples("SGM and XML")[0]
    outcome = read("t.{language}.sgm", {"t.en.sgm": shown, "t.de.sgm": shown})
    assert [target for _, target in outcome.documents[0]] == [target for _, target in LETTER]
    assert outcome.log == []


def test_every_kind_of_finding_is_explained_with_its_severity() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (error|repair|warning) \|", PAGE, flags=re.MULTILINE)
    assert dict(rows) == {kind: severity_of(kind) for kind in get_args(Kind)}


def test_every_format_is_explained_with_its_names() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((#[\w-]+)\) \|", PAGE, flags=re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(get_args(FileFormat))
    headings = {f"#{title.lower().replace(' ', '-')}" for title in re.findall(r"### (.+)", PAGE)}
    assert {anchor for _, anchor in rows} <= headings
