"""The paper's numbers, compared by hand with its tables and figures."""

import pytest

from iada.experiments.collection import describe_system
from iada.experiments.definitions import build_experiment
from iada.experiments.plan import System
from iada.report import paper
from iada.report.paper import PaperTable

TABLES = [
    *paper.MAIN.values(),
    paper.DIRECTIONS,
    paper.MEASURES,
    paper.LOSSES,
    paper.PRONOUNS,
    paper.BACK_TRANSLATION,
    *paper.NOISY_CONTEXT.values(),
    paper.DISTANCE,
    *paper.LOW_RESOURCE.values(),
    *paper.PARTS_OF_SPEECH.values(),
]
GNORM = {"method": "iada_replace_gnorm"}


def value(table: PaperTable, label: str, column: str) -> float | None:
    (row,) = (row for row in table.rows if row.label == label)
    return row.values.get(column)


@pytest.mark.parametrize(
    ("table", "label", "column", "expected"),
    [
        (paper.MAIN["ted"], "HAN", "s_bleu", 24.6),
        (paper.MAIN["ted"], "HAN", "d_bleu", None),
        (paper.MAIN["ted"], "DocFlat", "comet", 31.0),
        (paper.MAIN["ted"], "IADA Repl + TNorm", "d_bleu", 29.7),
        (paper.MAIN["news"], "CipherDAug", "comet", 14.4),
        (paper.MAIN["news"], "IADA Repl + GNorm", "s_bleu", 26.4),
        (paper.MAIN["europarl"], "Doc2Doc", "d_bleu", 33.1),
        (paper.MAIN["europarl"], "GTrans + mBART", "d_bleu", 34.3),
        (paper.DIRECTIONS, "GNorm, context ↓ current ↓", "d_bleu", 28.8),
        (paper.MEASURES, "Random", "comet", 25.4),
        (paper.LOSSES, "TNorm − perturb loss", "d_bleu", 28.4),
        (paper.PRONOUNS, "WordRepl", "es", 92.0),
        (paper.PRONOUNS, "IADA Repl + GNorm", "pronouns", 73.8),
        (paper.BACK_TRANSLATION, "TNorm", "d_bleu", 29.6),
        (paper.BACK_TRANSLATION, "GNorm + DocFT", "comet", 31.1),
        (paper.NOISY_CONTEXT["pronouns"], "Doc2Doc", "difference", 16.7),
        (paper.NOISY_CONTEXT["comet"], "IADA Repl + GNorm", "noisy", 29.3),
        (paper.DISTANCE, "IADA Repl + GNorm", "1", 12.60),
        (paper.DISTANCE, "IADA Repl + TNorm", ">3", 4.07),
        (paper.LOW_RESOURCE["s_bleu"], "WordRepl", "20", 1.52),
        (paper.LOW_RESOURCE["d_bleu"], "IADA Repl + GNorm", "100", 2.20),
        (paper.PARTS_OF_SPEECH["context"], "IADA Repl + GNorm", "NOUN", 13.3),
        (paper.PARTS_OF_SPEECH["current"], "WordRepl", "ADV", 6.2),
    ],
)
def test_numbers_are_the_papers(
    table: PaperTable, label: str, column: str, expected: float | None
) -> None:
    assert value(table, label, column) == expected


def test_every_row_of_every_table_is_there() -> None:
    expected = [19, 19, 19, 10, 7, 10, 4, 9, 4, 4, 4, 4, 3, 3, 3, 2, 2]
    assert [len(table.rows) for table in TABLES] == expected


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_row_of_ours_never_fits_two_rows_of_the_paper(table: PaperTable) -> None:
    for row in table.rows:
        for settings in row.settings:
            assert table.row(settings) is row


def test_the_noise_costs_what_the_paper_says() -> None:
    for table in paper.NOISY_CONTEXT.values():
        for row in table.rows:
            gap = row.values["gold"] - row.values["noisy"]
            assert gap == pytest.approx(row.values["difference"], abs=0.051)


def test_keys_that_are_not_named_have_the_methods_values() -> None:
    row = paper.DIRECTIONS.row(GNORM)
    assert row is not None
    assert row.label == "GNorm, context ↓ current ↑"
    loss = paper.LOSSES.row(GNORM | {"augment.weight_original": 0.0})
    assert loss is not None
    assert loss.label == "GNorm − anchor loss"


def test_every_system_has_rows_of_ours() -> None:
    table = paper.MAIN["ted"]
    assert [row.label for row in table.rows if not row.settings] == []
    ours = [(row.key, table.row(settings_of(row.system))) for row in build_experiment("main").rows]
    labels = {key: None if row is None else row.label for key, row in ours}
    assert labels["gtrans"] == labels["gtrans_word_drop"] == "GTrans"
    assert labels["docflat_word_drop"] == "DocFlat"
    assert labels["multires"] == "MultiRes"
    assert [key for key, label in labels.items() if label is None] == ["sentence_level"]
    # Without a checkpoint there is no run of it.
    others = {"FlatTrans + BERT", "GTrans + BERT", "GTrans + mBART"}
    assert {label for label in labels.values() if label} | others == {
        row.label for row in table.rows
    }


def test_a_second_stage_has_the_number_of_the_system_unless_the_paper_trained_it_at_once() -> None:
    table = paper.MAIN["ted"]
    staged = [row for row in build_experiment("stages").rows if row.system.start is not None]
    found = {row.key: table.row(settings_of(row.system)) for row in staged}
    labels = {key: None if row is None else row.label for key, row in found.items()}
    assert labels == {
        "doc2doc_staged": None,
        "word_drop_staged": None,
        "han_staged": "HAN",
        "san_staged": "SAN",
        "gtrans_staged": "GTrans",
        "gtrans_word_drop_staged": "GTrans",
        "docflat_staged": "DocFlat",
        "docflat_word_drop_staged": "DocFlat",
    }


def settings_of(system: System) -> dict[str, object]:
    settings: dict[str, object] = {"method": system.method, **dict(system.changes)}
    if system.start is not None:
        settings["start"] = describe_system(system.start)
    return settings


def test_other_settings_have_no_published_number() -> None:
    assert paper.LOSSES.row(GNORM | {"augment.alpha": 1.0}) is None
    assert paper.MAIN["ted"].row({"method": "doc2doc", "windows.context": 0}) is None
    assert paper.MAIN["ted"].row({"method": "r_drop"}) is None
