"""All scores of documents together: what is measured, on what, and what is refused."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.metrics import Segment, document_bleu, sentence_bleu
from iada.evaluation.scores import empty_statistics, evaluate, evaluate_systems, scores_by_position
from iada.evaluation.significance import holm, measure_mean

Documents = Callable[..., list[Document]]
FEW = EvaluateConfig(resamples=50)


class LengthScorer:
    """Scores a segment by the number of words of its translation."""

    signature = "model:length"

    def __init__(self) -> None:
        self.seen: list[Segment] = []

    def score(self, segments: Sequence[Segment]) -> list[float]:
        self.seen += segments
        return [float(len(segment.translation.split())) for segment in segments]


@pytest.fixture
def references(documents: Documents) -> list[Document]:
    return documents(
        ["The cat sat on the mat today .", "It was tired, and it slept."],
        [
            "He said: “Good-bye!”",
            "She left at 10:30 a.m.",
            "Nobody knew why she had left so early.",
        ],
    )


@pytest.fixture
def hypotheses(documents: Documents) -> list[Document]:
    return documents(
        ["A cat sat on the mat today .", "It was tired and it slept."],
        [
            'He said "Good bye!"',
            "She left at 10:30 a.m. exactly.",
            "nobody knew why she left early.",
        ],
    )


def test_every_score_has_its_signature(
    hypotheses: list[Document], references: list[Document]
) -> None:
    scores: dict[str, Any] = evaluate(hypotheses, references)
    sentence = sentence_bleu(hypotheses, references)
    document = document_bleu(hypotheses, references)
    assert scores["s_bleu"] == {"score": sentence.score, "signature": sentence.signature}
    assert scores["d_bleu"] == {"score": document.score, "signature": document.signature}
    assert "nc:6|nw:0" in scores["chrf"]["signature"]
    assert scores["chrf"]["score"] != scores["d_chrf"]["score"]
    assert set(scores) == {
        "s_bleu", "chrf", "d_bleu", "d_chrf", "length", "output", "by_position",
    }  # fmt: skip
    assert scores["length"]["ratio"] == pytest.approx(
        scores["length"]["hypothesis_tokens"] / scores["length"]["reference_tokens"]
    )


def test_another_number_of_documents_is_refused(
    hypotheses: list[Document], references: list[Document]
) -> None:
    with pytest.raises(DataError, match=r"1 translated documents \(hypothesis\) but 2 references"):
        evaluate(hypotheses[:1], references)
    with pytest.raises(DataError, match="aligned sentence by sentence"):
        evaluate(hypotheses, references, references[:1])
    with pytest.raises(DataError, match="hold no sentence"):
        evaluate([], [])


def test_other_sentences_leave_the_scores_of_documents(
    hypotheses: list[Document], references: list[Document], documents: Documents
) -> None:
    whole = documents(*([" ".join(document.sentences)] for document in hypotheses))
    given = EvaluateConfig(realign=False)
    scores: dict[str, Any] = evaluate(whole, references, references, config=given)
    aligned: dict[str, Any] = evaluate(hypotheses, references)
    assert set(scores) == {"d_bleu", "d_chrf", "length", "output"}
    for name in ("d_bleu", "d_chrf", "length"):
        assert scores[name] == aligned[name]


def test_other_sentences_are_realigned_and_counted(
    hypotheses: list[Document], references: list[Document], documents: Documents
) -> None:
    whole = documents(*([" ".join(document.sentences)] for document in hypotheses))
    scores: dict[str, Any] = evaluate(whole, references, references)
    several = sum(len(document) > 1 for document in references)
    assert scores["realigned"] == several > 0
    aligned: dict[str, Any] = evaluate(hypotheses, references)
    assert "realigned" not in aligned
    assert scores["d_bleu"] == aligned["d_bleu"]
    # Sentences are cut where they fit their references, so they score no worse than in fact.
    assert scores["chrf"]["score"] >= aligned["chrf"]["score"] - 1e-9


def test_a_baseline_is_compared_in_every_metric(
    hypotheses: list[Document], references: list[Document]
) -> None:
    scores: dict[str, Any] = evaluate(hypotheses, references, baseline=references, config=FEW)
    assert scores["baseline"]["s_bleu"]["score"] == pytest.approx(100)
    assert set(scores["significance"]) == {"s_bleu", "chrf", "d_bleu", "d_chrf"}
    found = scores["significance"]["d_bleu"]
    assert found["units"] == 2
    assert scores["significance"]["s_bleu"]["units"] == 5
    assert found["signature"].endswith("|ar:50|seed:12345|unit:document")
    comparison = found["systems"]["hypothesis"]
    assert comparison["difference"] == pytest.approx(
        scores["d_bleu"]["score"] - scores["baseline"]["d_bleu"]["score"]
    )
    assert list(found["intervals"]) == ["baseline", "hypothesis"]
    assert found["intervals"]["baseline"]["low"] == pytest.approx(100)


def test_the_test_decides_the_p_value_and_the_bootstrap_gives_the_interval(
    hypotheses: list[Document], references: list[Document]
) -> None:
    found = {}
    for test, name in (("randomization", "ar"), ("bootstrap", "bs")):
        config = EvaluateConfig(test=test, resamples=40, seed=7)  # type: ignore[arg-type]
        scores: dict[str, Any] = evaluate(
            hypotheses, references, baseline=references, config=config
        )
        found[test] = scores["significance"]["chrf"]
        assert found[test]["signature"].endswith(f"|{name}:40|seed:7|unit:sentence")
    one, other = (found[test]["systems"]["hypothesis"] for test in found)
    assert set(one) - {"people_agree"} == {"difference", "p_value", "p_holm", "interval", "wins"}
    assert (one["interval"], one["wins"]) == (other["interval"], other["wins"])
    assert one["p_value"] != other["p_value"]
    assert found["randomization"]["intervals"] == found["bootstrap"]["intervals"]


def test_p_values_are_corrected_over_all_systems_and_metrics(
    hypotheses: list[Document], references: list[Document]
) -> None:
    systems = {"base": references, "one": hypotheses, "two": hypotheses}
    found: dict[str, Any] = evaluate_systems(systems, references, baseline="base", config=FEW)
    comparisons = [
        one for metric in found["significance"].values() for one in metric["systems"].values()
    ]
    assert len(comparisons) == 4 * 2
    assert [one["p_holm"] for one in comparisons] == list(
        holm([one["p_value"] for one in comparisons])
    )


def test_systems_without_the_same_sentences_are_compared_by_documents(
    hypotheses: list[Document], references: list[Document], documents: Documents
) -> None:
    whole = documents(*([" ".join(document.sentences)] for document in hypotheses))
    systems = {"ours": hypotheses, "whole": whole, "copy": hypotheses}
    given = replace(FEW, realign=False)
    found: dict[str, Any] = evaluate_systems(systems, references, baseline="ours", config=given)
    assert found["baseline"] == "ours"
    significance = found["significance"]
    assert list(significance["s_bleu"]["systems"]) == ["copy"]
    assert list(significance["d_bleu"]["systems"]) == ["whole", "copy"]
    # Joined, the two are the same text.
    assert significance["d_bleu"]["systems"]["whole"]["p_value"] == 1.0
    assert "s_bleu" not in found["systems"]["whole"]
    alone: dict[str, Any] = evaluate_systems(systems, references, baseline="whole", config=given)
    assert set(alone["significance"]) == {"d_bleu", "d_chrf"}
    assert list(alone["systems"]) == ["ours", "whole", "copy"]


def test_scores_do_not_depend_on_the_order_of_documents_or_on_other_systems(
    hypotheses: list[Document], references: list[Document]
) -> None:
    alone: dict[str, Any] = evaluate(hypotheses, references)
    backwards: dict[str, Any] = evaluate(hypotheses[::-1], references[::-1])
    assert backwards == alone
    systems = {"other": references, "ours": hypotheses}
    together: dict[str, Any] = evaluate_systems(systems, references)
    assert together == {"systems": {"other": evaluate(references, references), "ours": alone}}


def test_a_learned_metric_sees_sentences_and_blocks(
    hypotheses: list[Document], references: list[Document], documents: Documents
) -> None:
    sources = documents(["s1", "s2"], ["s3", "s4", "s5"])
    config = EvaluateConfig(
        resamples=20, slide_window=2, comet_python="python", comet_model="model"
    )  # type: ignore[arg-type]
    scorer = LengthScorer()
    scores: dict[str, Any] = evaluate(
        hypotheses, references, sources, references, config=config, scorer=scorer
    )
    lengths = [len(s.split()) for document in hypotheses for s in document.sentences]
    assert scores["comet"] == {
        "score": pytest.approx(100 * sum(lengths) / 5), "signature": "model:length"
    }  # fmt: skip
    # Blocks: the first document, and sentences 1-2 and 2-3 of the second.
    blocks = [lengths[0] + lengths[1], lengths[2] + lengths[3], lengths[3] + lengths[4]]
    assert scores["slide_comet"] == {
        "score": pytest.approx(100 * sum(blocks) / 3),
        "signature": "model:length|window:2|stride:1",
    }
    translation, reference = (" ".join(side[1].sentences[:2]) for side in (hypotheses, references))
    assert Segment("s3 s4", translation, reference) in scorer.seen
    assert scores["significance"]["comet"]["units"] == 5
    # Blocks overlap, so they are not units.
    assert scores["significance"]["slide_comet"]["units"] == 2
    assert scores["by_position"]["3"]["comet"] == pytest.approx(100 * lengths[-1])
    with pytest.raises(DataError, match="COMET needs the source text"):
        evaluate(hypotheses, references, scorer=scorer)


def test_scores_by_position_split_the_sentences(documents: Documents) -> None:
    found = documents(["x"] * 12, ["x"] * 2, ["x"] * 45)
    positions = [*range(1, 13), 1, 2, *range(1, 46)]
    metric = measure_mean([[[float(position)] for position in positions]], "position")
    rows = scores_by_position(found, {"mean": metric}, 0)
    assert {name: row["sentences"] for name, row in rows.items()} == {
        "1": 3, "2": 3, "3": 2, "4-5": 4, "6-10": 10, "11-20": 12, "21-40": 20, "41+": 5,
    }  # fmt: skip
    assert sum(row["sentences"] for row in rows.values()) == len(positions)
    assert rows["4-5"]["mean"] == pytest.approx(450)
    assert rows["41+"]["mean"] == pytest.approx(4300)


def test_empty_and_copied_outputs_are_counted() -> None:
    hypotheses = ["", " ", "x", "a b", "NATO", ""]
    references = ["r", "r", "r", "r", "NATO", "r"]
    assert empty_statistics(hypotheses, references) == {"empty": 3}
    sources = ["s", "s", "s", "a b", "NATO", ""]
    # The last source is empty too, and the name is right as it is.
    assert empty_statistics(hypotheses, references, sources) == {"empty": 2, "copied": 1}


def test_doc_comet_reads_the_sentences_before_of_source_and_reference(
    hypotheses: list[Document], references: list[Document]
) -> None:
    scorer = LengthScorer()
    config = EvaluateConfig(
        comet_python=Path("python"), comet_model=Path("model"), doc_comet_context=2
    )
    found: dict[str, Any] = evaluate(
        hypotheses, references, references, config=config, scorer=scorer
    )
    assert found["doc_comet"]["signature"] == "model:length|context:2|of:reference"
    in_context = [segment for segment in scorer.seen if segment.context is not None]
    assert len(in_context) == sum(map(len, references))
    second, third = references[1].sentences[:2]
    (last,) = (one for one in in_context if one.reference == references[1].sentences[2])
    assert last.context == ((second, second), (third, third))
    (first,) = (one for one in in_context if one.reference == references[1].sentences[0])
    assert first.context == ()
