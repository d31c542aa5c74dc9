"""Perturbed copies: which tokens, with which probability, and what becomes of the text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from iada.analysis.importance_map import WindowView, importance_map
from iada.config.data import DataConfig
from iada.config.method import AugmentConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.windows.batch import Role
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError
from iada.synthesis import copies as module
from iada.synthesis.copies import Copier, CopyRole, CopySettings, PerturbedDocument
from iada.synthesis.rendering import Rendering

GNORM = AugmentConfig(measure="gnorm", alpha=1.0, p_context=0.3, p_current=0.2)


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture(scope="module")
def documents(mini_corpus: Path) -> list[ParallelDocument]:
    return read_split(DataConfig(folder=mini_corpus), "test")[:3]


def settings_of(
    translator: DocumentTranslator,
    augment: AugmentConfig = GNORM,
    *,
    role: CopyRole = "current",
    copies: int = 1,
    seed: int = 1,
) -> CopySettings:
    return CopySettings(
        augment=augment,
        windows=translator.windows,
        rendering=Rendering(boundaries="blank_line"),
        role=role,
        copies=copies,
        seed=seed,
        max_tokens=1000,
    )


def copied(
    translator: DocumentTranslator,
    documents: Sequence[ParallelDocument],
    settings: CopySettings,
) -> list[PerturbedDocument]:
    return list(Copier(translator.model, translator.subwords, settings).copies(documents))


def texts(found: Sequence[PerturbedDocument]) -> list[ParallelDocument]:
    return [document.text() for document in found]


def of_role(view: WindowView, side: str, role: Role) -> list[float]:
    """Probabilities of the current sentence, or of the sentence right before it."""
    tokens = getattr(view, side)
    if role is Role.CURRENT:
        return [token.probability for token in tokens if token.role is role]
    places = [i for i, token in enumerate(tokens) if token.role is role]
    last = [places[-1]]
    while last[-1] - 1 in places:
        last.append(last[-1] - 1)
    return [tokens[i].probability for i in reversed(last)]


@pytest.mark.parametrize("role", ["current", "context"])
def test_probabilities_are_those_of_the_window(
    translator: DocumentTranslator, documents: list[ParallelDocument], role: CopyRole
) -> None:
    found = copied(translator, documents, settings_of(translator, role=role))
    views = importance_map(
        translator.model,
        translator.subwords,
        documents,
        augment=GNORM,
        windows=translator.windows,
    )
    by_place = {(view.document, view.sentence): view for view in views}
    compared = 0
    for document in found:
        for number in range(1, len(document.original) + 1):
            offset = 1 if role == "context" else 0
            view = by_place.get((document.original.name, number + offset))
            for side in ("source", "target"):
                shown = getattr(document, side)[number - 1]
                if view is None:
                    # The last sentence of a document is nobody's context.
                    assert number == len(document.original)
                    assert shown.probability is None
                    assert shown.replaced == ()
                    continue
                kind = Role.CONTEXT if offset else Role.CURRENT
                assert shown.probability == pytest.approx(of_role(view, side, kind), abs=1e-4)
                assert len(shown.tokens) == len(shown.probability) == len(shown.importance)
                compared += 1
    assert compared > 40


def test_nothing_is_replaced_at_probability_0_and_everything_nearly_at_1(
    translator: DocumentTranslator, documents: list[ParallelDocument]
) -> None:
    none = replace(GNORM, p_current=0.0)
    found = copied(translator, documents, settings_of(translator, none))
    assert texts(found) == documents
    drop = AugmentConfig(measure="uniform", replacement="drop", p_current=0.999999)
    for document in texts(copied(translator, documents, settings_of(translator, drop))):
        for sentence in (*document.source.sentences, *document.target.sentences):
            assert set(sentence.split()) == {"<mask>"}


@pytest.mark.parametrize("sides", ["source", "target"])
def test_one_side_can_be_left_alone(
    translator: DocumentTranslator, documents: list[ParallelDocument], sides: str
) -> None:
    augment = replace(GNORM, sides=sides, p_current=0.5)
    for document in copied(translator, documents, settings_of(translator, augment)):
        text = document.text()
        changed = (text.source != document.original.source, text.target != document.original.target)
        assert changed == (sides == "source", sides == "target")


def test_copies_differ_and_seeds_repeat_them(
    translator: DocumentTranslator, documents: list[ParallelDocument]
) -> None:
    first = copied(translator, documents, settings_of(translator, copies=2))
    assert [d.copy for d in first] == [1, 2] * len(documents)
    one, two = texts(first[::2]), texts(first[1::2])
    assert all(left != right for left, right in zip(one, two, strict=True))
    assert copied(translator, documents, settings_of(translator, copies=2)) == first
    assert texts(copied(translator, documents, settings_of(translator))) == one
    assert texts(copied(translator, documents, settings_of(translator, seed=2))) != one


def test_chunks_do_not_matter(
    translator: DocumentTranslator,
    documents: list[ParallelDocument],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    augment = AugmentConfig(measure="uniform", p_current=0.3)
    whole = copied(translator, documents, settings_of(translator, augment))
    monkeypatch.setattr(module, "_SENTENCES_PER_CHUNK", 1)
    assert copied(translator, documents, settings_of(translator, augment)) == whole


def test_the_rate_is_the_probability(
    translator: DocumentTranslator, documents: list[ParallelDocument]
) -> None:
    augment = AugmentConfig(measure="uniform", p_current=0.2)
    settings = settings_of(translator, augment, copies=10)
    copier = Copier(translator.model, translator.subwords, settings)
    found = list(copier.copies(documents))
    total = sum(len(side.tokens) for d in found for side in (*d.source, *d.target))
    assert copier.tokens == total
    assert copier.sentences == sum(map(len, documents))
    deviation = (0.2 * 0.8 * total) ** 0.5
    assert abs(copier.replaced - 0.2 * total) < 4 * deviation


def test_more_important_tokens_of_the_current_sentence_are_replaced_more_often(
    translator: DocumentTranslator, documents: list[ParallelDocument]
) -> None:
    augment = replace(GNORM, alpha=2.0)
    found = copied(translator, documents, settings_of(translator, augment, copies=20))
    rows = [
        (side.importance[i], any(s.start <= i < s.stop for s in side.replaced))
        for document in found
        for side in document.source
        if side.importance
        for i in range(len(side.tokens))
    ]
    replaced = torch.tensor([score for score, hit in rows if hit]).mean()
    kept = torch.tensor([score for score, hit in rows if not hit]).mean()
    assert replaced > kept


def pair(*sentences: tuple[str, str]) -> ParallelDocument:
    source, target = zip(*sentences, strict=True)
    return ParallelDocument(Document("d", source), Document("d", target))


def test_pairs_with_an_empty_side_stay_as_they_are(
    translator: DocumentTranslator, caplog: pytest.LogCaptureFixture
) -> None:
    augment = AugmentConfig(measure="tnorm", p_current=0.999999, alpha=0.0)
    document = pair(("", "Hallo."), ("Hello.", "Hallo."), ("Bye.", ""))
    (found,) = copied(translator, [document], settings_of(translator, augment))
    assert found.text().source.sentences[::2] == ("", "Bye.")
    assert found.text().target.sentences[::2] == ("Hallo.", "")
    assert found.source[1].replaced
    assert "2 of 3 sentence pairs stay as they are: a side is empty." in caplog.text
    # Even if there is no window at all.
    (found,) = copied(translator, [pair(("", "a"))], settings_of(translator, augment))
    assert found.text().target.sentences == ("a",)


def test_a_sentence_that_would_vanish_stays(
    translator: DocumentTranslator,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Rendering, "text", lambda *_: " ")
    augment = AugmentConfig(measure="uniform", p_current=0.999999)
    (found,) = copied(translator, [pair(("Hello.", "Hallo."))], settings_of(translator, augment))
    assert found.text() == pair(("Hello.", "Hallo."))
    assert found.source[0].replaced == ()
    assert "2 sides of sentences stay as they are" in caplog.text


def test_settings_that_no_copy_can_have_are_refused(translator: DocumentTranslator) -> None:
    settings = settings_of(translator)
    with pytest.raises(ConfigError, match="has no context"):
        replace(settings, role="context", windows=replace(settings.windows, context=0))
    zeroed = replace(settings.augment, replacement="drop", drop="zero")
    with pytest.raises(ConfigError, match="zero vector in place of an embedding, which text can"):
        replace(settings, augment=zeroed)
    with pytest.raises(ConfigError, match="`copies` must be at least 1"):
        replace(settings, copies=0)


def test_pieces_of_a_word_are_replaced_together(
    translator: DocumentTranslator, documents: list[ParallelDocument]
) -> None:
    augment = AugmentConfig(
        measure="gnorm", alpha=1.0, replacement="drop", unit="word", p_current=0.5
    )
    found = copied(translator, documents, settings_of(translator, augment))
    longer = 0
    for side in (side for document in found for side in document.source):
        assert side.probability is not None
        replaced = {i for swap in side.replaced for i in range(swap.start, swap.stop)}
        starts = [
            i for i, token in enumerate(side.tokens) if token[0] == "▁" or not token.isalnum()
        ]
        for start, stop in zip(starts, [*starts[1:], len(side.tokens)], strict=True):
            word = range(start, stop)
            assert len({i in replaced for i in word}) == 1
            assert len({side.probability[i] for i in word}) == 1
            longer += len(word) > 1
    assert longer > 20
