"""The report page: complete, escaped, self-contained, accessible, reproducible and atomic."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from iada.analysis.importance_map import WindowView
from iada.errors import RunError
from iada.report.heatmap import write_heat_map
from iada.report.run_sections import Example, write_report
from iada.report.runs import RunSummary

EXAMPLE = Example(
    source_context=("The lamp is new.",),
    source="<script>alert('source')</script>",
    reference="Sie leuchtet.",
    outputs={"Doc2Doc": "Es <b>leuchtet</b>."},
)
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Collect tags, headings, ids and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def html(tmp_path: Path, runs: list[RunSummary], views: list[WindowView]) -> str:
    path = write_report(
        tmp_path / "new" / "report.html",
        runs,
        title="Lamps & <pronouns>",
        heat_map=views,
        notes=["A note with <i>markup</i>."],
        examples=[EXAMPLE],
    )
    return path.read_text(encoding="utf-8")


def test_everything_is_on_the_page(html: str) -> None:
    for heading in ("Results", "Pronouns", "Examples", "Token importance", "Training"):
        assert f">{heading}</h2>" in html
    assert "23.00 ± 1.00" in html
    assert "chance is 33.3%" in html
    assert html.count("<svg") == 3
    assert "The lamp is new." in html


def test_text_from_outside_is_escaped(html: str) -> None:
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(&#39;source&#39;)" in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<pronouns>" not in html


def test_the_page_can_request_nothing(html: str) -> None:
    rest = html
    for namespace in NAMESPACES:
        rest = rest.replace(f'"{namespace}"', "")
    for needle in ("http:", "https:", "src=", "@import", "<link", "fetch(", "//cdn"):
        assert needle not in rest
    targets = re.findall(r'href="([^"]*)"', html) + re.findall(r"url\(([^)]*)\)", html)
    assert all(target.startswith("#") for target in targets)


def test_every_element_is_closed_and_every_id_unique(html: str) -> None:
    outline = Outline(html)
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [str(a["href"])[1:] for tag, a in outline.tags if tag == "a"]
    assert set(links) <= set(ids)


def test_the_page_can_be_read_without_seeing_it(html: str) -> None:
    tags = Outline(html).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [tag for tag, _ in tags].count("main") == 1
    first_link = next(attributes for tag, attributes in tags if tag == "a")
    assert first_link["href"] == "#content"
    sorted_heads = [attributes for tag, attributes in tags if "aria-sort" in attributes]
    assert len(sorted_heads) == 8
    assert [tag for tag, _ in tags].count("button") == 8


def test_parts_without_content_are_left_out(tmp_path: Path, runs: list[RunSummary]) -> None:
    html = write_report(tmp_path / "r.html", runs, title="T").read_text(encoding="utf-8")
    assert "Examples" not in html
    assert "Token importance" not in html


def test_the_same_runs_give_the_same_bytes(
    tmp_path: Path, runs: list[RunSummary], views: list[WindowView]
) -> None:
    first = write_report(tmp_path / "a.html", runs, title="T", heat_map=views)
    second = write_report(tmp_path / "b.html", runs, title="T", heat_map=views)
    assert first.read_bytes() == second.read_bytes()


def test_a_failed_report_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, runs: list[RunSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("iada.storage.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(path, runs, title="T")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="at least one run folder"):
        write_report(tmp_path / "r.html", [], title="T")


def test_the_heat_map_has_a_page_of_its_own(tmp_path: Path, views: list[WindowView]) -> None:
    path = write_heat_map(tmp_path / "map.html", views, "Importance")
    outline = Outline(path.read_text(encoding="utf-8"))
    assert outline.open == []
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
