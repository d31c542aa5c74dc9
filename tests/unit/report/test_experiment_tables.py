"""Tables of data shares, noise, distances and tags, worked by hand."""

from collections.abc import Callable

from iada.evaluation.metrics import METRICS
from iada.experiments.results import Axis, Results, Row
from iada.report.result_tables import (
    distance_gain_table,
    gains_by_share,
    noise_table,
    share_table,
    tag_table,
)
from iada.report.tables import Table

NewRow = Callable[..., Row]
NewResults = Callable[..., Results]
DOC2DOC, WORD_REPLACE = {"method": "doc2doc"}, {"method": "word_replace"}
GNORM = {"method": "iada_replace_gnorm"}


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def heads(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def shares(new_row: NewRow, new_results: NewResults) -> Results:
    rows = [
        new_row("D, 20%", DOC2DOC | {"data.subset": 0.2}, (10.0, 11.0), series="D", value=0.2),
        new_row("G, 20%", GNORM | {"data.subset": 0.2}, (13.0, 16.0), series="G", value=0.2),
        # The whole corpus is the usual value, so the key is absent.
        new_row("D, 100%", DOC2DOC, (20.0, 21.0), series="D", value=1.0),
        new_row("G, 100%", GNORM, (20.0, 23.0), series="G", value=1.0),
    ]
    axis = Axis("data.subset", (0.2, 1.0))
    return new_results("low_resource", *rows, baseline="D, 100%", axis=axis)


def test_gains_are_over_the_baseline_on_the_same_data(
    new_row: NewRow, new_results: NewResults
) -> None:
    gains = gains_by_share(shares(new_row, new_results), METRICS["s_bleu"])
    assert list(gains) == ["G"]
    assert {share: found.mean for share, found in gains["G"].items()} == {20.0: 4.0, 100.0: 1.0}


def test_the_table_of_shares(new_row: NewRow, new_results: NewResults) -> None:
    table = share_table(shares(new_row, new_results), "s_bleu")
    assert heads(table)[:3] == ["Training data", "D", "Δ G"]
    assert texts(table) == [
        ["20 %", "10.50 ± 0.71", "+4.00 ± 1.41", "1.52", "4.09", "4.35"],
        ["100 %", "20.50 ± 0.71", "+1.00 ± 1.41", "0.52", "1.80", "1.93"],
    ]
    d_bleu = share_table(shares(new_row, new_results), "d_bleu")
    assert texts(d_bleu)[0][3:] == ["2.44", "4.36", "5.53"]


def test_without_a_baseline_there_are_no_gains(new_row: NewRow, new_results: NewResults) -> None:
    rows = [new_row("G", GNORM, series="G", value=1.0)]
    results = new_results("low_resource", *rows, baseline=None, axis=Axis("data.subset", (1.0,)))
    assert gains_by_share(results, METRICS["s_bleu"]) == {}
    assert heads(share_table(results, "s_bleu"))[:2] == ["Training data", "–"]


def test_the_table_of_noise(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "noisy_context",
        new_row("Doc2Doc", DOC2DOC, (20.0, 22.0), series="Gold context"),
        new_row("IADA", GNORM, (30.0, 31.0), series="Gold context"),
        new_row(
            "Doc2Doc, noisy", DOC2DOC | {"windows.noisy_context": 2}, (19.0, 20.0), series="Noisy"
        ),
    )
    lines = texts(noise_table(results))
    # IADA was not trained with noise, so noise has no cost to show.
    assert [line[0] for line in lines] == ["Doc2Doc"] * 4
    gold, noisy = "21.00 ± 1.41", "19.50 ± 0.71"
    assert lines[0] == ["Doc2Doc", "s-BLEU", gold, noisy, "+1.50 ± 0.71", "24.3", "23.5", "0.8"]
    assert lines[2][1:2] + lines[2][5:] == ["Pronouns (all) %", "63.5", "46.8", "16.7"]
    assert lines[3][5:] == ["–", "–", "–"]


def test_gains_by_distance(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "distance",
        new_row("Doc2Doc", DOC2DOC, breakdown={"distance": {"0": (0.5,) * 3, "1": (0.4,) * 3}}),
        new_row("IADA", GNORM, breakdown={"distance": {"0": (0.6,) * 3, "1": (0.3, 0.4, 0.5)}}),
    )
    table = distance_gain_table(results, ("0", "1", ">3"))
    expected = ["IADA", "3", "+10.0 ± 0.0", "0.0 ± 10.0", "–"]
    assert texts(table) == [[*expected, "6.08", "12.60", "8.34", "6.46", "3.62"]]
    assert table.columns[2].group == "Points above Doc2Doc"


def test_tags_of_context_and_current_sentence_are_apart(
    new_row: NewRow, new_results: NewResults
) -> None:
    row = new_row(
        "WordRepl",
        WORD_REPLACE,
        pos={"context": {"NOUN": (0.1, 0.2, 0.3)}, "current": {"NOUN": (0.4, 0.4, 0.4)}},
    )
    results = new_results("pos", row)
    context, current = (texts(tag_table(results, part))[0] for part in ("context", "current"))
    assert context[2:4] == ["20.0 ± 10.0", "–"]
    assert current[2:4] == ["40.0 ± 0.0", "–"]
    assert (context[7], current[7]) == ("16.3", "16.1")
