"""CXMI, token scores and contrastive decisions of a real model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iada.config.data import WindowConfig
from iada.config.method import AugmentConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.contrapro import read_contrastive
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import Collator, Role
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator, token_log_probabilities
from iada.evaluation.contrastive import contrastive_accuracy
from iada.evaluation.cxmi import SentenceCxmi, context_use, summarize_cxmi
from iada.method.importance import importance
from iada.method.measuring import measure_batch
from iada.models.observation import Observer

Untrained = Callable[[int], DocumentTranslator]


def parallel(source: list[str], target: list[str]) -> ParallelDocument:
    return ParallelDocument(Document("d", tuple(source)), Document("d", tuple(target)))


DOCUMENTS = [
    parallel(["the cat", "", "it sat .", "it saw it"], ["die Katze", "", "sie sah .", "sie"]),
    parallel(["the cat sat on the mat ."], ["die Katze sah die Katze ."]),
]


@pytest.fixture(scope="module")
def trained(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@torch.inference_mode()
def direct_score(translator: DocumentTranslator, batch: Any) -> float:
    """Sum the log-probabilities of the labels of one window."""
    keys = ("input_ids", "attention_mask", "decoder_input_ids")
    logits = translator.model(**{key: batch[key] for key in keys}).logits[0]
    scores = logits.log_softmax(dim=-1)
    return sum(float(scores[i, k]) for i, k in enumerate(batch["labels"][0].tolist()) if k >= 0)


def token_scores(
    translator: DocumentTranslator,
    documents: Sequence[ParallelDocument],
    config: WindowConfig,
    *,
    max_tokens: int = 1000,
) -> tuple[list[float], list[list[float]]]:
    """Sentence scores by one call of the model each, and token scores, of all windows."""
    windows = Windows(TokenStore.build(documents, translator.subwords), config)
    numbers = list(range(len(windows)))
    pad = translator.subwords.special.pad
    observer = Observer(translator.model)
    tokens = token_log_probabilities(observer, windows, numbers, pad_id=pad, max_tokens=max_tokens)
    observer.remove()
    sums = [direct_score(translator, Collator(pad)([windows[0, number]])) for number in numbers]
    return sums, [found.tolist() for found in tokens]


@pytest.mark.parametrize("loss_on", ["current", "all"])
@pytest.mark.parametrize("max_tokens", [1, 1000])
def test_token_scores_add_up_to_those_of_sentences(
    untrained: Untrained, loss_on: Any, max_tokens: int
) -> None:
    config = WindowConfig(loss_on=loss_on)
    sums, tokens = token_scores(untrained(3), DOCUMENTS, config, max_tokens=max_tokens)
    assert [sum(found) for found in tokens] == pytest.approx(sums, rel=1e-12)
    subwords = untrained(3).subwords
    (last,) = subwords.encode(["sie"])
    if loss_on == "current":
        assert len(tokens[2]) == len(last) + 1
    else:
        assert len(tokens[2]) > len(last) + 1


def test_the_tokens_of_a_sentence_are_in_the_order_of_the_text(untrained: Untrained) -> None:
    # The target is causal, so another ending leaves the scores before it as they were.
    first = parallel(["the cat"], ["die Katze sah"])
    second = parallel(["the cat"], ["die Katze again"])
    _, (one,) = token_scores(untrained(0), [first], WindowConfig(context=0))
    _, (other,) = token_scores(untrained(0), [second], WindowConfig(context=0))
    shared = len(untrained(0).subwords.encode(["die Katze"])[0])
    assert one[:shared] == pytest.approx(other[:shared], rel=1e-12)
    assert one[shared] != pytest.approx(other[shared])


def test_context_is_worth_the_difference_of_two_scores(untrained: Untrained) -> None:
    found = context_use(untrained(3), DOCUMENTS)
    assert [(s.document, s.sentence, s.context) for s in found] == [
        ("d", 1, 0), ("d", 3, 2), ("d", 4, 3), ("d", 1, 0),
    ]  # fmt: skip
    with_context = untrained(3).score(
        [parallel(["the cat", "", "it sat ."], ["die Katze", "", "sie sah ."])]
    )
    without = untrained(3).score([parallel(["it sat ."], ["sie sah ."])])
    assert found[1].cxmi == pytest.approx(with_context[0] - without[0], rel=1e-9)
    assert found[1].cxmi != pytest.approx(0)
    assert "".join(found[1].tokens) == "▁sie▁sah▁.</s>"
    assert len(found[1].tokens) == len(found[1].differences)
    for first in (found[0], found[3]):
        assert first.cxmi == pytest.approx(0, abs=1e-12)


def test_a_sentence_model_gains_nothing_from_context(untrained: Untrained) -> None:
    found = context_use(untrained(0), DOCUMENTS)
    assert {sentence.context for sentence in found} == {0}
    values = [value for sentence in found for value in sentence.differences]
    assert values == pytest.approx([0.0] * len(values), abs=1e-12)
    summary: dict[str, Any] = summarize_cxmi(found)
    assert summary["with_context"] == {"cxmi": 0.0, "sentences": 0}
    assert summary["cxmi"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "windows",
    [
        WindowConfig(noisy_context=2),
        WindowConfig(loss_on="all"),
        WindowConfig(stride=2),
        WindowConfig(strategy="multires"),
    ],
    ids=["noise", "loss on all", "stride", "multires"],
)
def test_how_windows_were_cut_in_training_does_not_matter(
    untrained: Untrained, windows: WindowConfig
) -> None:
    translator = untrained(3)
    expected = context_use(translator, DOCUMENTS)
    translator.windows = windows
    assert context_use(translator, DOCUMENTS) == expected


def test_averages_are_over_sentences_and_over_tokens() -> None:
    sentences = [
        SentenceCxmi("d", 1, 0, ("a", "</s>"), (0.0, 0.0)),
        SentenceCxmi("d", 2, 1, ("a", "b", "</s>"), (1.0, 2.0, -0.5)),
        SentenceCxmi("d", 3, 2, ("</s>",), (-0.5,)),
    ]
    assert summarize_cxmi(sentences) == {
        "cxmi": pytest.approx(2.0 / 3),
        "sentences": 3,
        "with_context": {"cxmi": pytest.approx(1.0), "sentences": 2},
        "per_token": pytest.approx(2.0 / 6),
        "tokens": 6,
        "helped": pytest.approx(1 / 3),
    }


def test_scoring_the_target_context_too_changes_no_decision(
    trained: DocumentTranslator, mini_corpus: Path
) -> None:
    items = read_contrastive(mini_corpus / "contrastive.json")
    everything = replace(trained.windows, loss_on="all")
    gaps: list[float] = []

    def with_context(documents: Sequence[ParallelDocument]) -> list[float]:
        windows = Windows(TokenStore.build(documents, trained.subwords), everything)
        lasts = windows.store.document_starts[1:] - 1
        numbers = [int(np.flatnonzero(windows.sentences == last)[0]) for last in lasts]
        observer = Observer(trained.model)
        scores = token_log_probabilities(
            observer, windows, numbers, pad_id=trained.subwords.special.pad, max_tokens=4000
        )
        observer.remove()
        sums = [float(score.sum()) for score in scores]
        gaps.extend(
            abs(whole - current)
            for whole, current in zip(sums, trained.score(documents), strict=True)
        )
        return sums

    context = trained.windows.context
    plain = contrastive_accuracy(items, trained.score, context=context)
    # The context is in the sums, and it is large.
    assert contrastive_accuracy(items, with_context, context=context) == plain
    assert max(gaps) > 10
    assert 0 < plain["correct"] < plain["total"]  # type: ignore[operator]


def test_a_sentence_model_decides_the_same_whatever_the_context(
    trained: DocumentTranslator, mini_corpus: Path
) -> None:
    items = read_contrastive(mini_corpus / "contrastive.json")
    sentence = DocumentTranslator(
        trained.model,
        trained.subwords,
        windows=replace(trained.windows, context=0),
        decode=trained.decode,
    )
    results = [contrastive_accuracy(items, sentence.score, context=n) for n in (0, 1, 3)]
    for result in results:
        result.pop("signature")
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("loss_on", ["current", "all"])
def test_the_measure_of_importance_is_the_p_cxmi_of_current_tokens(
    untrained: Untrained, loss_on: Any
) -> None:
    translator = untrained(3)
    expected = context_use(translator, DOCUMENTS)
    config = WindowConfig(context=3, loss_on=loss_on)
    windows = Windows(TokenStore.build(DOCUMENTS, translator.subwords), config)
    batch = Collator(translator.subwords.special.pad)(
        windows.__getitems__([(0, number) for number in range(len(windows))])
    )
    # Dropout is off for the measure whatever the model is doing.
    translator.model.train()
    source, target = importance(translator.model, batch, "p_cxmi")
    assert translator.model.training
    translator.model.eval()
    assert not source.any()
    current = batch["target_roles"] == Role.CURRENT
    assert not target[~current].any()
    for row, sentence in enumerate(expected):
        found = target[row][current[row]].tolist()
        assert found == pytest.approx(sentence.differences[:-1], rel=1e-9, abs=1e-12)
    assert target.abs().max() > 1e-3
    observer = Observer(translator.model)
    group = measure_batch(observer, batch, AugmentConfig(measure="p_cxmi"), seed=0)["target"]
    observer.remove()
    assert group.known is not None
    assert group.known.equal(current)
    # The context has no score, so it keeps its probability.
    context = batch["target_roles"] == Role.CONTEXT
    assert group.probability[context].tolist() == pytest.approx([0.1] * int(context.sum()))
