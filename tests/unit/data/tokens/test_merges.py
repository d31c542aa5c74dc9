"""Random merges follow the procedure of BPE-dropout, in distribution and at both ends."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer

from iada.data.mini import generate_documents
from iada.data.tokens import bpe_dropout as merges
from iada.data.tokens.bpe_dropout import MergeWalk, passed_over
from iada.data.tokens.subwords import Subwords, train_subwords


@pytest.fixture(scope="module")
def texts() -> list[str]:
    documents = [d.parallel() for d in generate_documents(20, seed=3, split="train")]
    return [s for d in documents for side in (d.source, d.target) for s in side.sentences]


@pytest.fixture(scope="module")
def mini(texts: list[str]) -> Subwords:
    return train_subwords(texts, vocabulary_size=600)


def draw(subwords: Subwords, word: str, probability: float, count: int) -> list[list[str]]:
    """Segment a word many times."""
    walk = MergeWalk(subwords)
    (ids,) = subwords.encode([word])
    many = np.tile(np.array(ids, np.int32), count)
    characters, _ = walk.words(many, np.arange(count) * len(ids))
    uniform = np.random.default_rng(1).random(int(walk.lengths(characters).sum()))
    states = walk.walk(characters, passed_over(uniform, probability))
    pieces = np.split(walk.pieces(states), np.cumsum(walk.lengths(states))[:-1])
    return [subwords.pieces(word.tolist()) for word in pieces]


def expected(subwords: Subwords, word: str, probability: float) -> dict[tuple[str, ...], float]:
    """The exact distribution: every set of skipped pairs at every step, as it is written."""
    model = subwords.tokenizer.to_str()
    ranks = {tuple(pair): rank for rank, pair in enumerate(_merges(model))}

    def outcomes(pieces: tuple[str, ...]) -> dict[tuple[str, ...], float]:
        pairs = [i for i in range(len(pieces) - 1) if pieces[i : i + 2] in ranks]
        found: dict[tuple[str, ...], float] = {}
        for skipped in itertools.product([True, False], repeat=len(pairs)):
            weight = math.prod(probability if one else 1 - probability for one in skipped)
            survivors = [i for i, one in zip(pairs, skipped, strict=True) if not one]
            if not survivors:
                found[pieces] = found.get(pieces, 0.0) + weight
                continue
            best = min(survivors, key=lambda i: (ranks[pieces[i : i + 2]], i))
            merged = (*pieces[:best], pieces[best] + pieces[best + 1], *pieces[best + 2 :])
            for end, share in outcomes(merged).items():
                found[end] = found.get(end, 0.0) + weight * share
        return found

    return outcomes(tuple("\u2581" + word))


def _merges(model: str) -> list[list[str]]:
    import json

    found: list[list[str]] = json.loads(model)["model"]["merges"]
    return found


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_segmentations_have_the_probabilities_of_the_procedure(
    mini: Subwords, probability: float
) -> None:
    (word,) = [w for w in ("their", "there", "where") if len(mini.encode([w])[0]) < 4][:1]
    count = 50_000
    exact = expected(mini, word, probability)
    assert len(exact) > 5
    assert sum(exact.values()) == pytest.approx(1)
    found = Counter(map(tuple, draw(mini, word, probability, count)))
    assert set(found) <= set(exact)
    for pieces, share in exact.items():
        deviation = math.sqrt(share * (1 - share) / count)
        assert abs(found[pieces] / count - share) < 5 * deviation + 1e-9


def test_the_mean_length_is_that_of_the_tokenizers_library(
    mini: Subwords, texts: list[str]
) -> None:
    tokenizer = Tokenizer.from_str(mini.tokenizer.to_str())
    tokenizer.model.dropout = 0.3
    theirs, ours = [], []
    for word in sorted({w for text in texts for w in text.split()})[:40]:
        theirs.append(np.mean([len(tokenizer.model.tokenize("\u2581" + word)) for _ in range(400)]))
        ours.append(np.mean([len(pieces) for pieces in draw_marked(mini, word, 0.3, 400)]))
    assert np.mean(ours) == pytest.approx(float(np.mean(theirs)), rel=0.02)


def draw_marked(subwords: Subwords, word: str, probability: float, count: int) -> list[list[str]]:
    """Like `draw`, for one run of characters that the tokenizer must not cut into words."""
    walk = MergeWalk(subwords)
    ids = [token.id for token in subwords.tokenizer.model.tokenize("\u2581" + word)]
    many = np.tile(np.array(ids, np.int32), count)
    characters, _ = walk.words(many, np.arange(count) * len(ids))
    uniform = np.random.default_rng(2).random(int(walk.lengths(characters).sum()))
    states = walk.walk(characters, passed_over(uniform, probability))
    return [[""] * int(length) for length in walk.lengths(states)]


def test_without_dropout_every_training_word_is_segmented_as_always(
    mini: Subwords, texts: list[str]
) -> None:
    for word in sorted({w for text in texts for w in text.split() if w.isalpha()}):
        ((ids,), (drawn,)) = mini.encode([word]), draw(mini, word, 0.0, 1)
        assert drawn == mini.pieces(ids)


def test_full_dropout_gives_characters(mini: Subwords) -> None:
    (drawn,) = draw(mini, "there", 1.0, 1)
    assert drawn == list("\u2581there")


def test_passing_over_is_geometric() -> None:
    uniform = np.random.default_rng(5).random(200_000)
    found = passed_over(uniform, 0.3)
    for least in (1, 2, 3, 4):
        share = 0.3**least
        deviation = math.sqrt(share * (1 - share) / len(uniform))
        assert abs((found >= least).mean() - share) < 4 * deviation
    # The largest number below 1 must not overflow.
    assert passed_over(np.array([0.0, np.nextafter(1.0, 0.0)]), 0.999999).min() >= 0


def test_a_small_memory_gives_the_same_segmentations(
    mini: Subwords, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = sorted({w for text in texts[:60] for w in text.split() if w.isalpha()})

    def segmented(walk: MergeWalk) -> list[list[int]]:
        found = []
        for number, word in enumerate(words):
            ids = np.array(mini.encode([word])[0], np.int32)
            characters, _ = walk.words(ids, np.zeros(1, np.int64))
            uniform = np.random.default_rng(number).random(int(walk.lengths(characters).sum()))
            found.append(walk.pieces(walk.walk(characters, passed_over(uniform, 0.5))).tolist())
        return found

    whole = segmented(MergeWalk(mini))
    monkeypatch.setattr(merges, "_MOST_STATES", 3)
    walk = MergeWalk(mini)
    assert segmented(walk) == whole
    assert len(walk._numbers) < 60
