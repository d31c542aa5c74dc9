"""The pages of results show what the recorded results say, as the report writes it today."""

import re
from pathlib import Path
from statistics import fmean

import pytest

from iada.evaluation.metrics import METRICS
from iada.experiments.definitions import experiment_names
from iada.report.overview import find_material, report_sections
from iada.report.page import markdown_report
from iada.report.result_tables import percent_cell
from iada.report.tables import mean_cell
from iada.report.verdict import signed
from iada.report.views import help_gains

RECORDED = Path(__file__).parents[3] / "docs" / "results"
CORPORA = (
    "mini-scarce",
    "mini-scarce-pair",
    "mini-scarce-systems",
    "mini-scarce-main",
    "mini-scarce-controls",
    "mini-scarce-lagged",
    "mini-scarce-ablations",
    "mini-plentiful",
    "mini",
    "mini-v1-architectures",
    "bcontrast",
    "bcontrast-architectures",
    "dialogue",
)


MAIN_TABLE = "## The systems of the main table, scarce text"
CONTROLS_TABLE = "## Controls and the strength of the tilt, scarce text, three seeds"
README_RESULTS = "## Results on the embedded corpus"
EARLIER = "### Earlier runs of the same rows"
PLENTIFUL = "### Does importance help where text is plentiful?"


def read_section(page: str, heading: str) -> str:
    """Return what stands between a heading and the next one."""
    text = (RECORDED.parents[1] / page).read_text(encoding="utf-8")
    return text.partition(f"{heading}\n")[2].partition("\n#")[0]


def read_page(corpus: str) -> str:
    return (RECORDED / corpus / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("corpus", CORPORA)
def test_tables_and_answers_are_those_of_the_recorded_results(corpus: str) -> None:
    page = read_page(corpus)
    written = markdown_report(report_sections(find_material([RECORDED / corpus])), title="")
    # Rows of tables, captions and answers in bold, and the notes below tables.
    beginnings = ("|", "**", "∗", "Ours", "Signatures", "Sweep")
    expected = [line for line in written.splitlines() if line.startswith(beginnings)]
    assert len(expected) > 10
    assert [line for line in expected if line not in page] == [], (
        f"`iada report docs/results/{corpus}` writes other tables than the page in that folder"
    )


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_figure_is_there(corpus: str) -> None:
    links = re.findall(r"\]\(([^)]*)\)", read_page(corpus))
    assert links
    assert [link for link in links if not (RECORDED / corpus / link).is_file()] == []


@pytest.mark.parametrize(
    ("page", "heading", "corpus", "least", "seeds"),
    [
        ("README.md", README_RESULTS, "mini-scarce-controls", 5, 3),
        ("docs/results.md", "## Scarce text", "mini-scarce-controls", 5, 3),
        ("docs/results.md", EARLIER, "mini-scarce", 4, 3),
        ("docs/results.md", f"{MAIN_TABLE}, three seeds", "mini-scarce-main", 19, 3),
        ("docs/results.md", CONTROLS_TABLE, "mini-scarce-controls", 26, 3),
        ("docs/results.md", "## The embedded corpus, plentiful", "mini", 14, 3),
        ("docs/results.md", PLENTIFUL, "mini-plentiful", 3, 3),
    ],
)
def test_tables_written_by_hand_have_the_recorded_means(
    page: str, heading: str, corpus: str, least: int, seeds: int
) -> None:
    lines = read_section(page, heading).splitlines()
    found = find_material([RECORDED / corpus]).experiments
    rows = {
        row.label: row
        for item in found
        if len(item.results.seeds) == seeds
        for row in item.results.rows
    }
    # "| Doc2Doc | 91.61 ± 0.36 | ..."; single runs have no spread and are not meant.
    shown = [line for line in lines if line.startswith("| ") and "±" in line]
    assert len(shown) >= least
    for line in shown:
        label, *cells = (_unmarked(cell) for cell in line.strip("|").split("|"))
        metrics = rows[label.removesuffix(", the control")].metrics
        keys = ("s_bleu", "d_bleu", "pronouns_needing_context", "dev_nll")
        texts = [
            mean_cell(METRICS[key].mean(metrics[key]), seeds, digits=METRICS[key].digits).text
            for key in keys
        ]
        assert cells == texts, label


def _unmarked(cell: str) -> str:
    """Take the marks of significance off, with the seeds that they speak of."""
    return re.sub(r" [∗†](\d/\d)?", "", cell).strip()


@pytest.mark.parametrize(
    ("heading", "corpus", "experiment"),
    [
        ("### From scratch or in two stages", "mini-scarce-ablations", "stages"),
        ("### Architectures on version 1", "mini-v1-architectures", "main"),
        ("## Version 2 of the corpus, plentiful", "mini-plentiful", "main"),
        ("## Architectures on BConTrasT", "bcontrast-architectures", "architectures"),
    ],
)
def test_single_runs_written_by_hand_have_the_recorded_scores(
    heading: str, corpus: str, experiment: str
) -> None:
    lines = read_section("docs/results.md", heading)
    (item,) = [
        item
        for item in find_material([RECORDED / corpus]).experiments
        if item.results.experiment == experiment
    ]
    for row in item.results.rows:
        (line,) = [line for line in lines.splitlines() if line.startswith(f"| {row.label} |")]
        cells = [cell.strip(" †∗") for cell in line.strip("|").split("|")][1:]
        keys = ("s_bleu", "d_bleu", "pronouns_needing_context", "dev_nll")
        assert cells == [
            mean_cell(METRICS[key].mean(row.metrics[key]), 1, digits=METRICS[key].digits).text
            for key in keys
        ]


def test_plentiful_text_in_the_readme_has_the_recorded_scores() -> None:
    told = " ".join(read_section("README.md", README_RESULTS).split())
    (item,) = [
        item
        for item in find_material([RECORDED / "mini-plentiful"]).experiments
        if item.results.experiment == "controls"
    ]
    scores = {
        row.label: [
            f"{fmean(METRICS[key].shown(row.metrics[key])):.1f}"
            for key in ("pronouns_needing_context", "s_bleu")
        ]
        for row in item.results.rows
    }
    plain, iada = scores["Doc2Doc"], scores["IADA (Repl, GNorm)"]
    control = scores["Uniform (Repl, all losses)"]
    assert (
        f"Doc2Doc knows {plain[0]}% of them with {plain[1]} s-BLEU, "
        f"IADA {iada[0]}% with {iada[1]}, the control {control[0]}% with {control[1]} (three seeds)"
    ) in told


def test_ablations_written_by_hand_have_the_recorded_scores() -> None:
    lines = read_section("docs/results.md", "## Ablations and analyses, scarce text").splitlines()
    # Lines in italics name the tables of the paper and have no scores.
    shown = [line for line in lines if re.match(r"\| [^*].* \d", line)]
    assert len(shown) == 42
    rows = {
        row.label: row
        for item in find_material([RECORDED / "mini-scarce-ablations"]).experiments
        for row in item.results.rows
    }
    for line in shown:
        label, *cells = (_unmarked(cell) for cell in line.strip("|").split("|"))
        keys = ("s_bleu", "d_bleu", "pronouns_needing_context", "dev_nll")
        means = [METRICS[key].mean(rows[label].metrics[key]) for key in keys]
        assert cells == [
            mean_cell(mean, 1, digits=METRICS[key].digits).text
            for key, mean in zip(keys, means, strict=True)
        ], label


def test_dialogues_written_by_hand_have_the_recorded_scores() -> None:
    keys = (
        "s_bleu",
        "d_bleu",
        "chrf",
        "pronouns",
        "pronouns_needing_context",
        "cxmi",
        "dev_nll",
    )
    groups = [("class", one) for one in ("er", "es", "sie")]
    groups += [("distance", one) for one in ("0", "1", "unknown")]
    lines = read_section("docs/results.md", "## Everyday dialogues").splitlines()
    (item,) = find_material([RECORDED / "dialogue"]).experiments
    seeds = len(item.results.seeds)
    assert seeds == 3
    for row in item.results.rows:
        scores, parts = (
            [_unmarked(cell) for cell in line.strip("|").split("|")][1:]
            for line in lines
            if line.startswith(f"| {row.label} |")
        )
        assert scores == [
            mean_cell(METRICS[key].mean(row.metrics[key]), seeds, digits=METRICS[key].digits).text
            for key in keys
        ]
        assert parts == [percent_cell(row.breakdown[kind][group]).text for kind, group in groups]


def test_architectures_written_by_hand_have_the_recorded_scores() -> None:
    text = (RECORDED.parent / "results.md").read_text(encoding="utf-8")
    lines = text.partition("## Every system, scarce text\n")[2].partition("\n## ")[0].splitlines()
    (rows,) = [
        item.results.rows
        for item in find_material([RECORDED / "mini-scarce-systems"]).experiments
        if item.results.experiment == "architectures"
    ]
    # Plain, the control, TNorm, GNorm.
    systems = [rows[first : first + 4] for first in range(0, len(rows), 4)]
    assert len(systems) == 7
    for system in systems:
        cells = [system[0].label]
        for row in system:
            keys = ("s_bleu", "pronouns_needing_context")
            means = [METRICS[key].mean(row.metrics[key]) for key in keys]
            digits = [METRICS[key].digits for key in keys]
            shown = zip(means, digits, strict=True)
            cells.append(", ".join(mean_cell(value, 1, digits=d).text for value, d in shown))
        assert f"| {' | '.join(cells)} |" in lines


def test_expected_scores_of_architectures_are_the_recorded_ones() -> None:
    text = (RECORDED.parent / "architectures.md").read_text(encoding="utf-8")
    lines = text.partition("## Expected scores\n")[2].partition("\n## ")[0].splitlines()
    shown = [line for line in lines if line.startswith("| ") and "±" in line]
    assert len(shown) == 9

    def cells(line: str, corpus: str, seeds: int) -> list[str]:
        label = line.strip("|").split("|")[0].strip()
        found = [
            row.metrics
            for item in find_material([RECORDED / corpus]).experiments
            for row in item.results.rows
            if item.results.experiment == "main" and row.label == label
        ]
        return [
            mean_cell(METRICS[key].mean(found[0][key]), seeds, digits=METRICS[key].digits).text
            for key in ("s_bleu", "pronouns_needing_context")
        ]

    for line in shown:
        scarce = cells(line, "mini-scarce-main", 3)
        plentiful = cells(line, "mini-plentiful", 1)
        assert [cell.strip() for cell in line.strip("|").split("|")][1:] == scarce + plentiful


@pytest.mark.parametrize(
    ("page", "heading", "folder", "system"),
    [
        ("README.md", README_RESULTS, "mini-scarce-controls", "IADA (Repl, GNorm)"),
        ("README.md", README_RESULTS, "mini-scarce-lagged", "IADA (Repl, GNorm), lagged"),
        ("docs/results.md", "## Scarce text", "mini-scarce-controls", "IADA (Repl, GNorm)"),
        ("docs/results.md", "## Scarce text", "mini-scarce-lagged", "IADA (Repl, GNorm), lagged"),
        ("docs/results.md", "## Everyday dialogues", "dialogue", "IADA (Repl, GNorm)"),
        ("docs/results.md", "## Everyday dialogues", "dialogue", "IADA (Repl, GNorm), lagged"),
        ("docs/results.md", PLENTIFUL, "mini-plentiful", "IADA (Repl, GNorm)"),
        ("docs/results.md", EARLIER, "mini-scarce", "IADA (Repl, GNorm)"),
        (
            "docs/results.md",
            EARLIER,
            "mini-scarce-pair",
            "IADA (Repl, GNorm), α = 1, matched budget",
        ),
    ],
)
def test_gains_in_the_text_are_the_recorded_ones(
    page: str, heading: str, folder: str, system: str
) -> None:
    gains = {
        gain.system: gain for gain in help_gains(find_material([RECORDED / folder]).experiments)
    }
    one = gains[system].differences["s_bleu"]
    assert one.interval is not None
    low, high = (signed(bound, 2) for bound in one.interval)
    told = f"{signed(one.mean, 2)} s-BLEU, 95% interval {low} to {high}"
    # Lines are broken anywhere.
    assert told in " ".join(read_section(page, heading).split())


def test_the_embedded_corpus_has_every_experiment_and_three_seeds_where_it_counts() -> None:
    found = {
        item.results.experiment: item.results
        for item in find_material([RECORDED / "mini"]).experiments
    }
    # Not recorded yet.
    assert set(experiment_names()) - set(found) == {"architectures", "stages", "agreement"}
    assert min(len(found[name].seeds) for name in ("main", "controls")) >= 3
