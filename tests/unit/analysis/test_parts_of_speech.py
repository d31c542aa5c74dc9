"""Shares of perturbed parts of speech: by hand, against base rates, and with real tags."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from iada.analysis.parts_of_speech import (
    NAMES,
    PosShares,
    RoleShares,
    choose_tagger,
    perturbed_shares,
    token_tags,
)
from iada.analysis.taggers import GoldTagger, Tagged
from iada.config.data import DataConfig
from iada.config.method import AugmentConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.mini.lexicon import Token
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError

UNIFORM = AugmentConfig(measure="uniform")


class Given:
    """Says what it was told."""

    name = "given"

    def __init__(self, *documents: list[Tagged]) -> None:
        self.documents = documents

    def tag(self, documents: Sequence[Document]) -> Iterator[list[Tagged]]:
        self.seen = documents
        yield from self.documents


def words(text: str) -> Tagged:
    return [Token(*pair.split("/")) for pair in text.split()]


def names(numbers: Sequence[int]) -> list[str]:
    return [NAMES[number] for number in numbers]


def store_of(subwords: Subwords, *sentences: str) -> TokenStore:
    document = ParallelDocument(Document("d", sentences), Document("d", sentences))
    return TokenStore.build([document], subwords)


def test_every_piece_gets_the_tag_of_its_word(subwords: Subwords) -> None:
    store = store_of(subwords, "the cat, again", "she sat")
    pieces = subwords.pieces(store.source.ids.tolist())
    assert "".join(pieces) == "▁the▁cat,▁again<sep>▁she▁sat<sep>"
    tagger = Given([words("the/DET cat/NOUN ,/PUNCT again/ADV"), words("she/PRON sat/VERB")])
    tags, unaligned = token_tags(store, subwords, [], tagger)
    expected = []
    for piece in pieces:
        letters = piece.removeprefix("▁")
        owner = next(
            (w for w in ("the", "cat", "again", "she", "sat") if letters and letters in w), ""
        )
        expected.append(
            {"cat": "NOUN", "again": "ADV", "she": "PRON", "sat": "VERB"}.get(owner, "OTHER")
        )
    assert names(tags.tolist()) == expected
    assert {"NOUN", "ADV", "PRON", "VERB"} <= set(expected)
    assert unaligned == 0


def test_words_that_do_not_spell_the_tokens_are_counted(
    subwords: Subwords, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(subwords, "the cat", "she sat")
    tagger = Given([words("a/DET cat/NOUN"), words("she/PRON sat/VERB")])
    tags, unaligned = token_tags(store, subwords, [], tagger)
    assert unaligned == 1
    assert names(tags.tolist())[:2] == ["OTHER", "OTHER"]
    assert "VERB" in names(tags.tolist())
    assert "1 of 2 sentences have words that do not spell their tokens" in caplog.text


def test_a_tag_before_a_sentence_is_no_word() -> None:
    tagged = train_subwords(["the cat sat on the mat ."] * 3, vocabulary_size=300, tags=("<bt>",))
    store = store_of(tagged, "<bt> the cat")
    tagger = Given([words("the/DET cat/NOUN")])
    tags, unaligned = token_tags(store, tagged, [Document("d", ("<bt> the cat",))], tagger)
    assert tagger.seen == [Document("d", ("the cat",))]
    assert unaligned == 0
    assert names(tags.tolist())[-2] == "NOUN"


def test_shares_are_percentages_of_the_perturbed_tokens() -> None:
    counts = np.array([1.0, 0, 0, 0, 0, 3.0])
    role = RoleShares(counts, np.zeros(6), 2 * counts)
    found = PosShares("gnorm", 0.1, "gold", 2, 0, role, role).to_mapping()
    assert found["context"]["tokens"] == {
        "total": 4.0,
        "NOUN": 25.0,
        "PRON": 0.0,
        "VERB": 0.0,
        "ADJ": 0.0,
        "ADV": 0.0,
        "OTHER": 75.0,
    }
    assert found["current"]["sampled"]["total"] == 8.0
    # Nothing was perturbed, so there are no shares.
    assert set(found["current"]["expected"].values()) == {0.0, None}
    assert json.loads(json.dumps(found)) == found


def gold_counts(mini_corpus: Path, run: Path) -> np.ndarray:
    """Tokens of the test split by tag, counted without any window."""
    data = DataConfig(folder=mini_corpus)
    documents = read_split(data, "test")
    subwords = DocumentTranslator.load(run).subwords
    store = TokenStore.build(documents, subwords)
    tagger = GoldTagger(mini_corpus / "test.en.pos", "blank_line")
    tags, unaligned = token_tags(store, subwords, [d.source for d in documents], tagger)
    assert unaligned == 0
    is_text = ~np.isin(store.source.ids, subwords.special.all)
    return np.bincount(tags[is_text], minlength=len(NAMES))


def test_uniform_replacement_gives_the_base_rates(trained_run: Path, mini_corpus: Path) -> None:
    draws = 40
    shares = perturbed_shares(trained_run, augment=UNIFORM, draws=draws)
    assert (shares.tagger, shares.measure, shares.unaligned) == ("gold", "uniform", 0)
    # Every sentence is current once.
    assert shares.current.tokens.tolist() == gold_counts(mini_corpus, trained_run).tolist()
    for role in (shares.context, shares.current):
        assert role.expected == pytest.approx(0.1 * role.tokens)
        base = role.tokens / role.tokens.sum()
        perturbed = role.sampled.sum()
        deviation = np.sqrt(base * (1 - base) / perturbed)
        assert (np.abs(role.sampled / perturbed - base) < 4 * deviation).all()
        mean = 0.1 * draws * role.tokens
        assert (np.abs(role.sampled - mean) < 4.5 * np.sqrt(0.9 * mean)).all()
    again = perturbed_shares(trained_run, augment=UNIFORM, draws=draws)
    assert again.to_mapping() == shares.to_mapping()
    other = perturbed_shares(trained_run, augment=UNIFORM, draws=draws, seed=2)
    assert other.current.sampled.tolist() != shares.current.sampled.tolist()


def test_the_two_directions_tilt_the_shares_apart(trained_run: Path) -> None:
    tilted = AugmentConfig(measure="gnorm", alpha=1.0)
    shares = perturbed_shares(trained_run, augment=tilted, draws=20)
    base = perturbed_shares(trained_run, augment=UNIFORM)
    assert shares.current.tokens.tolist() == base.current.tokens.tolist()

    def rate(found: RoleShares) -> np.ndarray:
        return np.asarray(found.expected / found.expected.sum() - found.tokens / found.tokens.sum())

    # Tags that gain where important tokens are replaced more often lose where they are kept.
    opposite = replace(tilted, context_direction="up", current_direction="down")
    turned = perturbed_shares(trained_run, augment=opposite)
    for role, other in ((shares.current, turned.current), (shares.context, turned.context)):
        assert (rate(role) * rate(other)).sum() < 0
    for role in (shares.current, shares.context):
        deviation = np.sqrt(20 * role.expected)
        assert (np.abs(role.sampled - 20 * role.expected) < 4.5 * deviation).all()
    flat = perturbed_shares(trained_run, augment=replace(tilted, alpha=0.0))
    assert flat.current.expected == pytest.approx(base.current.expected)


def test_batches_do_not_change_what_is_expected(trained_run: Path) -> None:
    augment = AugmentConfig(measure="tnorm", alpha=1.0)
    small = perturbed_shares(trained_run, augment=augment, max_tokens=150)
    large = perturbed_shares(trained_run, augment=augment, max_tokens=4000)
    assert small.context.expected == pytest.approx(large.context.expected, rel=1e-4)


def test_a_role_that_is_never_perturbed_has_no_shares(trained_run: Path) -> None:
    shares = perturbed_shares(trained_run, augment=replace(UNIFORM, p_context=0.0))
    assert shares.context.expected.sum() == shares.context.sampled.sum() == 0
    assert shares.to_mapping()["context"]["expected"]["NOUN"] is None


def test_tags_are_gold_where_there_are_any(mini_corpus: Path, tmp_path: Path) -> None:
    data = DataConfig(folder=mini_corpus)
    assert choose_tagger(data, "dev", "auto").name == "gold"
    pytest.importorskip("HanTa", reason="needs the optional package HanTa (extra `pos`)")
    assert choose_tagger(data, "dev", "hanta").name == "HanTa"
    assert choose_tagger(replace(data, folder=tmp_path), "dev", "auto").name == "HanTa"


def test_what_cannot_be_counted_is_refused(trained_run: Path, tmp_path: Path) -> None:
    data = DataConfig(folder=tmp_path, dev="dev.tsv")
    with pytest.raises(DataError, match="gold tags need a split of plain text"):
        choose_tagger(data, "dev", "gold")
    with pytest.raises(ConfigError, match="`draws` must be at least 1, but is 0"):
        perturbed_shares(trained_run, draws=0)


def test_hanta_counts_what_gold_tags_count(trained_run: Path) -> None:
    pytest.importorskip("HanTa", reason="needs the optional package HanTa (extra `pos`)")
    gold = perturbed_shares(trained_run, augment=UNIFORM)
    found = perturbed_shares(trained_run, augment=UNIFORM, tagger="hanta")
    assert found.unaligned == 0
    assert found.current.tokens.sum() == gold.current.tokens.sum()
    left, right = (
        torch.tensor(shares.current.tokens / shares.current.tokens.sum())
        for shares in (gold, found)
    )
    assert (left - right).abs().max() < 0.1
