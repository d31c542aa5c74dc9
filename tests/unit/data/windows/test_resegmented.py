"""Windows with BPE-dropout: same text, fresh pieces, within the plan, from a seed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iada.config.data import WindowConfig
from iada.data.mini import generate_documents
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.windows.batch import IGNORED, Collator, Role, Rows
from iada.data.windows.drawn import ResegmentedWindows, _words_to_keep
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows

Make = Callable[..., ResegmentedWindows]
Setting = tuple[Subwords, TokenStore]


@pytest.fixture(scope="module")
def setting() -> Setting:
    documents = [d.parallel() for d in generate_documents(12, seed=3, split="train")]
    sentences = [s for d in documents for side in (d.source, d.target) for s in side.sentences]
    subwords = train_subwords(sentences, vocabulary_size=600)
    return subwords, TokenStore.build(documents, subwords)


@pytest.fixture(scope="module")
def make(setting: Setting) -> Make:
    subwords, store = setting

    def build(dropout: float, *, seed: int = 1, **config: Any) -> ResegmentedWindows:
        return ResegmentedWindows(
            store, WindowConfig(**config), subwords=subwords, dropout=dropout, seed=seed
        )

    return build


def every(windows: Windows, epoch: int = 0) -> Rows:
    return windows.__getitems__([(epoch, number) for number in range(len(windows))])


def sentences(subwords: Subwords, ids: "np.typing.NDArray[np.int32]") -> list[str]:
    """The text between special tokens."""
    edges = np.flatnonzero(np.isin(ids, subwords.special.all))
    return [subwords.decode(part.tolist()) for part in np.split(ids, edges)]


@pytest.mark.parametrize("config", [{}, {"loss_on": "all"}, {"strategy": "multires"}])
def test_without_dropout_windows_are_the_plain_ones(
    make: Make, setting: Setting, config: dict[str, Any]
) -> None:
    plain = every(Windows(setting[1], WindowConfig(**config)))
    drawn = every(make(0.0, **config))
    for name in ("source_ids", "source_roles", "target_ids", "target_roles", "labels"):
        assert np.array_equal(getattr(plain, name), getattr(drawn, name))


@pytest.mark.parametrize("dropout", [0.1, 0.6, 1.0])
def test_the_text_stays_on_both_sides_and_no_token_is_unknown(
    make: Make, setting: Setting, dropout: float
) -> None:
    subwords, store = setting
    plain, drawn = every(Windows(store, WindowConfig())), every(make(dropout))
    for side in ("source_ids", "target_ids"):
        before, after = getattr(plain, side), getattr(drawn, side)
        assert sentences(subwords, before) == sentences(subwords, after)
        assert len(after) > len(before)
        assert not np.isin(after, [subwords.special.unk, *range(6, 262)]).any()


def test_no_token_is_unknown_in_ten_epochs(make: Make, setting: Setting) -> None:
    windows = make(0.3)
    for epoch in range(10):
        rows = every(windows, epoch)
        assert not (rows.source_ids == setting[0].special.unk).any()
        assert not (rows.target_ids == setting[0].special.unk).any()


def test_more_dropout_gives_longer_windows(make: Make) -> None:
    lengths = [every(make(dropout)).source_lengths.mean() for dropout in (0.0, 0.1, 0.3, 0.6, 1.0)]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == 5


def test_full_dropout_gives_characters(make: Make, setting: Setting) -> None:
    rows = every(make(1.0))
    pieces = {piece for piece in setting[0].pieces(rows.target_ids.tolist()) if piece[0] != "<"}
    assert max(map(len, pieces)) == 1


def test_labels_are_the_next_inputs_and_roles_follow_the_sentences(
    make: Make, setting: Setting
) -> None:
    special = setting[0].special
    windows = make(0.5)
    for number in range(len(windows)):
        window = windows[3, number]
        in_loss = window.labels != IGNORED
        shifted = np.append(window.target_ids[1:], special.eos)
        assert np.array_equal(window.labels[in_loss], shifted[in_loss])
        after_context = int(np.flatnonzero(window.target_roles == Role.CURRENT)[0])
        assert in_loss.tolist() == [
            place >= after_context - 1 for place in range(len(window.labels))
        ]
        for ids, roles in (
            (window.source_ids, window.source_roles),
            (window.target_ids, window.target_roles),
        ):
            assert np.array_equal(roles == Role.SPECIAL, np.isin(ids, special.all))
            context = windows.spans.current[number] - windows.spans.first[number]
            # As many separators as context sentences come before the current part.
            current = int(np.flatnonzero(roles == Role.CURRENT)[0])
            assert (ids[:current] == special.sep).sum() == context


def test_a_draw_depends_on_seed_epoch_and_window_alone(make: Make) -> None:
    windows = make(0.3)
    together = every(windows, epoch=2)
    bounds = np.cumsum(together.source_lengths)[:-1]
    fresh = make(0.3)
    for number, expected in reversed(list(enumerate(np.split(together.source_ids, bounds)))):
        assert np.array_equal(fresh[2, number].source_ids, expected)
    for other in (every(windows, epoch=3), every(make(0.3, seed=2), epoch=2)):
        assert not np.array_equal(other.source_ids, together.source_ids)


def test_a_sentence_is_segmented_anew_in_every_window(make: Make, setting: Setting) -> None:
    subwords, _ = setting
    windows = make(0.5)
    first, second = windows[0, 0], windows[0, 1]
    assert windows.spans.first[1] == 0 == windows.spans.current[0]
    length = int(np.flatnonzero(second.source_ids == subwords.special.sep)[0])
    assert subwords.decode(first.source_ids.tolist()) == subwords.decode(
        second.source_ids[:length].tolist()
    )
    assert first.source_ids[:-1].tolist() != second.source_ids[:length].tolist()


@pytest.mark.parametrize("max_length", [60, 512])
@pytest.mark.parametrize("dropout", [0.1, 1.0])
def test_no_batch_exceeds_the_budget_and_no_window_its_limit(
    make: Make, setting: Setting, dropout: float, max_length: int
) -> None:
    windows = make(dropout, max_length=max_length)
    plain = Windows(setting[1], WindowConfig(max_length=max_length))
    assert np.array_equal(windows.spans.first, plain.spans.first)
    sampler = TokenBatchSampler(windows.planned_lengths(), max_tokens=600, seed=1)
    collator = Collator(setting[0].special.pad)
    seen = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for keys in sampler:
            batch = collator(windows.__getitems__(keys))
            rows, longest = len(keys), max(batch["input_ids"].shape[1], batch["labels"].shape[1])
            assert rows * longest <= 600
            assert longest <= max_length
            seen += rows
    assert seen == 3 * len(plain) == windows.drawn
    # A limit that windows fill to the brim holds many of them back; the allowance hardly any.
    assert (windows.held > seen / 20) == (max_length == 60)


def test_windows_that_are_held_keep_the_text_and_their_newest_sentences_drawn(
    make: Make, setting: Setting
) -> None:
    subwords, store = setting
    config = {"max_length": 60}
    windows = make(1.0, **config)
    plain, drawn = every(Windows(store, WindowConfig(max_length=60))), every(windows)
    assert windows.held > 0
    assert sentences(subwords, plain.source_ids) == sentences(subwords, drawn.source_ids)
    splits = np.cumsum(drawn.source_lengths)[:-1]
    plain_rows = np.split(plain.source_ids, np.cumsum(plain.source_lengths)[:-1])
    mixed = 0
    for before, after in zip(plain_rows, np.split(drawn.source_ids, splits), strict=True):
        kinds = [
            np.array_equal(one, other)
            for one, other in zip(
                np.split(before, np.flatnonzero(before == subwords.special.sep) + 1),
                np.split(after, np.flatnonzero(after == subwords.special.sep) + 1),
                strict=True,
            )
        ]
        # Plain sentences first, drawn ones after them.
        assert kinds == sorted(kinds, reverse=True)
        mixed += len(set(kinds)) == 2
    assert mixed > 0


def test_as_few_sentences_as_possible_stay_plain() -> None:
    drawn, plain = np.array([5, 5, 1, 4, 1, 6, 1]), np.array([2, 2, 1, 1, 1, 2, 1])
    ends = np.array([False, False, True, False, True, False, True])
    # 23 as drawn; 17, 14 and 10 with one, two and all sentences plain.
    found = [_words_to_keep(drawn, plain, ends, limit) for limit in (22, 17, 16, 14, 13, 10)]
    assert found == [3, 3, 5, 5, 7, 7]
