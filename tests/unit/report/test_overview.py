"""The whole report: every experiment, answers first, gaps named, text escaped, files beside it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from iada.analysis.importance_map import WindowView
from iada.cli.main import main
from iada.experiments.definitions import experiment_names
from iada.experiments.results import Results, Row, write_results
from iada.report.charts import png_file, svg_file
from iada.report.overview import Material, find_material, report_sections, report_summary
from iada.report.page import (
    FigureBlock,
    Paragraph,
    Section,
    TableBlock,
    markdown_report,
    older_files,
    write_files,
    write_page,
)

FIGURES = {"alpha_sweep", "pronouns", "distance", "low_resource", "pos"}


@pytest.fixture
def material(experiment_folder: Path) -> Material:
    return find_material([experiment_folder])


@pytest.fixture
def sections(material: Material, views: list[WindowView]) -> list[Section]:
    return report_sections(material, heat_map=views, heat_map_note="Of a run.")


def paragraphs(sections: list[Section], identifier: str) -> list[str]:
    (section,) = (section for section in sections if section.identifier == identifier)
    return [block.text for block in section.blocks if isinstance(block, Paragraph)]


def test_every_experiment_has_its_tables_and_figures(sections: list[Section]) -> None:
    blocks = [block for section in sections for block in section.blocks]
    tables = {block.name for block in blocks if isinstance(block, TableBlock)}
    drawn = {block.drawing.name for block in blocks if isinstance(block, FigureBlock)}
    for name in experiment_names():
        assert any(table.startswith(f"{name}-mini") for table in tables)
    assert drawn == {f"{name}-mini-figure" for name in FIGURES} | {"importance-gains-figure"}
    assert sections[0].identifier == "answers"


def test_the_answer_stands_first_and_the_sweep_beside_it(sections: list[Section]) -> None:
    first, second = paragraphs(sections, "answers")[:2]
    assert first.startswith("Importance helps in 1 of 3 comparisons with the uniform control")
    assert second.startswith("Yes: importance beats the uniform")
    assert paragraphs(sections, "help") == [first]
    assert sections[1].title == "Does importance help?"
    texts = paragraphs(sections, "controls")
    assert texts[1].startswith("Yes: importance beats the uniform control")
    assert texts[3].startswith("Sweep of α: s-BLEU is best at α = 1,")


def test_what_was_not_run_is_named_in_one_line(experiment_folder: Path) -> None:
    folders = [experiment_folder / "mini" / name for name in ("main", "losses")]
    sections = report_sections(find_material(folders))
    lines = paragraphs(sections, "answers")
    assert lines[0].startswith("Whether importance helps is not known")
    absent = [name for name in experiment_names() if name not in ("main", "losses")]
    assert lines[1] == f"Not run on mini: {', '.join(absent)}."
    titles = [section.title for section in sections]
    assert titles == ["In short", "Main results", "Terms of the loss", "How the rows were made"]


def test_runs_that_are_gone_are_counted(sections: list[Section]) -> None:
    expected = "Left out: training curves of Title of main (mini): 15 runs not there any more."
    assert expected in paragraphs(sections, "answers")


def test_two_corpora_are_parted(experiment_folder: Path, every_result: list[Results]) -> None:
    other = replace(every_result[0], data="europarl")
    (experiment_folder / "europarl" / "main").mkdir(parents=True)
    write_results(experiment_folder / "europarl" / "main" / "results.json", other)
    found = find_material([experiment_folder])
    assert report_summary(found) == f"{len(experiment_names()) + 1} experiments on europarl, mini"
    html = markdown_report(report_sections(found), title="T")
    assert "### europarl" in html
    # The corpus of the same name, and TED for one that the paper does not have.
    assert "Paper, Europarl: s-BLEU" in html
    assert "Paper, TED: s-BLEU" in html


def test_whiskers_are_explained_where_there_are_any(
    experiment_folder: Path, every_result: list[Results]
) -> None:
    (results,) = (found for found in every_result if found.experiment == "low_resource")
    rows = tuple(
        replace(
            row,
            metrics={key: values[:1] for key, values in row.metrics.items()},
            runs=row.runs[:1],
            significance={},
        )
        for row in results.rows
    )
    folder = experiment_folder / "mini" / "low_resource"

    def caption() -> str:
        blocks = [b for section in report_sections(find_material([folder])) for b in section.blocks]
        (figure,) = (block for block in blocks if isinstance(block, FigureBlock))
        return figure.caption

    assert "Whiskers" in caption()
    write_results(folder / "results.json", replace(results, rows=rows, seeds=(1,)))
    assert "Whiskers" not in caption()


@pytest.mark.parametrize("name", ["pronouns", "distance"])
def test_a_breakdown_without_a_contrastive_set_is_one_line(
    experiment_folder: Path, every_result: list[Results], name: str
) -> None:
    (results,) = (found for found in every_result if found.experiment == name)
    rows = tuple(replace(row, breakdown={}) for row in results.rows)
    write_results(experiment_folder / "mini" / name / "results.json", replace(results, rows=rows))
    sections = report_sections(find_material([experiment_folder / "mini" / name]))
    assert paragraphs(sections, name) == [
        "Not measured on mini: its runs were not scored on a contrastive set."
    ]


def test_results_without_a_baseline_are_shown(
    experiment_folder: Path, every_result: list[Results], tmp_path: Path
) -> None:
    """The baseline's run may have failed."""
    for results in every_result:
        rows = tuple(row for row in results.rows if row.key != results.baseline)
        path = experiment_folder / "mini" / results.experiment / "results.json"
        write_results(path, replace(results, rows=rows, baseline=None))
    sections = report_sections(find_material([experiment_folder]))
    write_page(tmp_path / "r.html", sections, title="T", summary="S")
    assert {section.identifier for section in sections} >= set(experiment_names()) - {"alpha_sweep"}


def test_names_are_text_everywhere(
    tmp_path: Path, new_row: Callable[..., Row], new_results: Callable[..., Results]
) -> None:
    name = "<script>alert(1)</script> & *b* | $x$"
    row = new_row(name, {"method": "doc2doc"}, breakdown={"class": {"er": (0.1, 0.2, 0.3)}})
    results = new_results("pronouns", row, data="<i>data</i>", title="<b>title</b>")
    (tmp_path / "x").mkdir()
    write_results(tmp_path / "x" / "results.json", results)
    sections = report_sections(find_material([tmp_path / "x"]))
    page = write_page(tmp_path / "r.html", sections, title="<u>t</u>", summary="s")
    html = page.read_text(encoding="utf-8")
    for tag in ("<script>alert", "<i>", "<b>", "<u>"):
        assert tag not in html
    written = write_files(tmp_path / "files", sections, title="<u>t</u>")
    for path in written:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            assert "<" not in text
            assert re.search(r"alert\(1\)&lt;/script> &amp; \\\*b\\\* \\\| \$x\$", text) or (
                "alert" not in text
            )
    (svg,) = (path for path in written if path.suffix == ".svg")
    root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert name in texts


def test_tables_and_figures_become_files(sections: list[Section], tmp_path: Path) -> None:
    written = write_files(tmp_path / "files", sections, title="T")
    assert all(path.is_file() for path in written)
    assert len(set(written)) == len(written)
    names = {path.relative_to(tmp_path / "files").as_posix() for path in written}
    assert {"report.md", "tables/main-mini.md", "tables/main-mini.tex"} <= names
    assert {"figures/pos-mini-figure.svg", "figures/pos-mini-figure.png"} <= names
    # Folders of this machine stay on the page.
    assert not [name for name in names if "rows" in name]
    report = (tmp_path / "files" / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]*)\)", report)
    assert len(links) == len(FIGURES) + 1
    assert set(links) <= names
    assert str(tmp_path) not in report
    assert "## Main results" in report
    assert "| Doc2Doc | 3 | 21.00 ± 1.00 |" in report
    assert older_files(tmp_path / "files", written) == []
    assert len(older_files(tmp_path / "files", written[:-1])) == 1


def test_files_stand_alone_and_are_the_same_again(sections: list[Section]) -> None:
    blocks = [block for section in sections for block in section.blocks]
    drawing = next(block.drawing for block in blocks if isinstance(block, FigureBlock))
    assert svg_file(drawing).startswith("<?xml")
    assert "var(" not in svg_file(drawing)
    assert "currentColor" not in svg_file(drawing)
    assert png_file(drawing)[:8] == b"\x89PNG\r\n\x1a\n"
    assert png_file(drawing) == png_file(drawing)
    assert svg_file(drawing) == svg_file(drawing)


def test_the_command_writes_page_and_files(
    experiment_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "out" / "page.html"
    command = ["report", str(experiment_folder), f"--output={page}", "--title=All & more"]
    assert main([*command, "--dry_run"]) == 0
    number = len(experiment_names())
    assert capsys.readouterr().out == f"{number} experiments on mini\n"
    assert not page.exists()
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Yes: importance beats the uniform control")
    assert f"{page}: {number} experiments on mini\n" in captured.out
    assert "<h1>All &amp; more</h1>" in page.read_text(encoding="utf-8")
    assert (page.parent / "page_files" / "report.md").is_file()
    (page.parent / "page_files" / "tables" / "old.md").write_text("old", encoding="utf-8")
    assert main(command) == 0
    assert "1 files of an earlier report: old.md" in capsys.readouterr().err


def test_the_command_refuses_nothing_and_negative_numbers(
    experiment_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["report", str(experiment_folder), "--windows=-1"]) == 2
    assert "windows" in capsys.readouterr().err


def test_seeds_of_several_folders_are_one_experiment(tmp_path: Path) -> None:
    for place, seed in (("monday", 1), ("tuesday", 2), ("again", 2)):
        row = Row("doc2doc", "Doc2Doc", {"method": "doc2doc"}, (f"../runs/{seed}",), {})
        row = replace(row, metrics={"s_bleu": (20.0 + seed,)})
        found = Results("main", "Main", "mini", {}, (seed,), "doc2doc", (row,))
        (tmp_path / place / "main").mkdir(parents=True)
        write_results(tmp_path / place / "main" / "results.json", found)
    (whole,) = find_material([tmp_path / "monday", tmp_path / "tuesday"]).experiments
    assert whole.results.seeds == (1, 2)
    assert whole.results.rows[0].metrics == {"s_bleu": (21.0, 22.0)}
    assert whole.label == "mini"
    # A seed that is there twice stays apart, under the name of its folder.
    twice = find_material([tmp_path / "tuesday", tmp_path / "again"]).experiments
    assert [item.results.seeds for item in twice] == [(2,), (2,)]
    assert len({item.label for item in twice}) == 2
