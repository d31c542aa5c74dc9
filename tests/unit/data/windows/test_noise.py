"""Noisy context: the right number of foreign pairs, the same on both sides, once and for all."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import Window
from iada.data.windows.conditions import (
    ABSENT,
    ContextNoise,
    context_noise,
    describe_noise,
    noisy_context,
    replaced_count,
)
from iada.data.windows.spans import Spans
from iada.data.windows.windows import Windows
from iada.errors import DataError

StoreOf = Callable[..., TokenStore]
Pair = tuple[Sequence[int], Sequence[int]]


def numbered(sizes: Sequence[int], empty: Sequence[int] = ()) -> list[list[Pair]]:
    """Documents whose source sentence s is the token 1000 + s, its target twice 5000 + s.

    The target of the sentences in `empty` is empty.
    """
    stops = np.cumsum(sizes).tolist()
    return [
        [([1000 + s], [] if s in empty else [5000 + s] * 2) for s in range(stop - size, stop)]
        for stop, size in zip(stops, sizes, strict=True)
    ]


def source_sentences(window: Window) -> list[int]:
    """The sentences of a window of numbered documents, as its source tells."""
    return [int(token) - 1000 for token in window.source_ids if token >= 1000]


def target_sentences(window: Window) -> list[int]:
    return [int(token) - 5000 for token in window.target_ids if token >= 5000][::2]


def test_the_number_of_replaced_pairs_leaves_one_true_pair_of_two() -> None:
    context = np.array([0, 1, 2, 3, 4])
    assert replaced_count(context, 2).tolist() == [0, 1, 1, 2, 2]
    assert replaced_count(context, 1).tolist() == [0, 1, 1, 1, 1]
    assert replaced_count(context, 4).tolist() == [0, 1, 1, 2, 3]
    assert replaced_count(context, 0).tolist() == [0, 0, 0, 0, 0]


sizes_strategy = st.lists(st.integers(1, 8), min_size=2, max_size=5)


@settings(max_examples=100, deadline=None)
@given(sizes_strategy, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_as_many_pairs_as_wanted_come_from_other_documents(
    store_of: StoreOf, sizes: list[int], context: int, replaced: int, stride: int, seed: int
) -> None:
    assume(replaced <= context)
    store = store_of(*numbered(sizes))
    config = WindowConfig(context=context, stride=stride)
    clean = Windows(store, config)
    noisy = Windows(store, config, noise=ContextNoise(replaced, seed))
    assert len(noisy) == len(clean)
    for number in range(len(clean)):
        before, after = clean[0, number], noisy[0, number]
        sentences = source_sentences(after)
        assert sentences == target_sentences(after)
        true = source_sentences(before)
        assert len(sentences) == len(true)
        length = len(true) - before.sentences
        # The current part is never touched.
        assert sentences[length:] == true[length:]
        foreign = [s for s, own in zip(sentences, true, strict=True) if s != own]
        assert len(foreign) == replaced_count(np.array([length]), replaced)[0]
        own = store.document_of[before.sentence]
        assert all(store.document_of[s] != own for s in foreign)
        assert after.source_roles.tolist() == before.source_roles.tolist()
        assert after.target_roles.tolist() == before.target_roles.tolist()


@settings(max_examples=60, deadline=None)
@given(sizes_strategy, st.integers(1, 3), st.integers(0, 99))
def test_the_noise_of_a_sentence_depends_on_nothing_but_the_seed(
    store_of: StoreOf, sizes: list[int], stride: int, seed: int
) -> None:
    store = store_of(*numbered(sizes))
    noise = ContextNoise(2, seed)
    every = Windows(store, WindowConfig(), noise=noise)
    assert every.context is not None
    rows = dict(zip(every.sentences.tolist(), every.context.tolist(), strict=True))
    fewer = Windows(store, WindowConfig(stride=stride), noise=noise)
    assert fewer.context is not None
    for sentence, row in zip(fewer.sentences.tolist(), fewer.context.tolist(), strict=True):
        assert row == rows[sentence]


def test_another_seed_gives_another_noise(store_of: StoreOf) -> None:
    store = store_of(*numbered([9, 9, 9]))
    one, other = (
        Windows(store, WindowConfig(), noise=ContextNoise(2, seed)).context for seed in (1, 2)
    )
    assert one is not None
    assert other is not None
    assert one.tolist() != other.tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(*[st.lists(st.integers(6, 99), max_size=6)] * 2), min_size=1, max_size=5
        ),
        min_size=2,
        max_size=4,
    ),
    st.integers(7, 20),
    st.integers(0, 99),
)
def test_a_noisy_window_fits_and_holds_as_much_context_as_it_can(
    store_of: StoreOf, content: list[list[Pair]], max_length: int, seed: int
) -> None:
    assume(sum(any(all(pair) for pair in document) for document in content) >= 2)
    pairs = [pair for document in content for pair in document]
    store = store_of(*content)
    noise = ContextNoise(2, seed)
    windows = Windows(store, WindowConfig(max_length=max_length), noise=noise)
    parts = Spans(windows.sentences, windows.sentences, windows.sentences + 1)
    wanted = noisy_context(store, parts, noise, context=3, documents=windows.documents)
    assert windows.context is not None
    for number, sentence in enumerate(windows.sentences.tolist()):
        window = windows[0, number]
        lengths = [len(window.source_ids), len(window.target_ids)]
        assert windows.lengths()[number].tolist() == lengths
        assert max(lengths) <= max_length
        kept = [s for s in windows.context[number].tolist() if s != ABSENT]
        before = [s for s in wanted[number].tolist() if s != ABSENT]
        assert kept == before[len(before) - len(kept) :]
        assert sentence - windows.spans.first[number] == len(kept)
        if len(kept) < len(before):
            # One sentence more would not have fitted on one of the sides.
            more = [pairs[s] for s in [*before[-len(kept) - 1 :], sentence]]
            sides = zip(*more, strict=True)
            assert max(sum(len(s) + 1 for s in side) for side in sides) > max_length


def test_context_that_no_longer_fits_is_reported(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    # Alone the short documents would fit; their foreign pairs are long.
    short: list[Pair] = [([10], [20])] * 2
    long: list[Pair] = [([10] * 5, [20] * 5)]
    store = store_of(short, long)
    config = WindowConfig(context=1, max_length=7)
    Windows(store, config)
    assert caplog.messages == []
    windows = Windows(store, config, noise=ContextNoise(1, 1))
    lost = int((windows.spans.first == windows.spans.current).sum()) - 2
    assert lost == 1
    assert caplog.messages == [
        "1 of 3 windows lost their oldest context to fit `windows.max_length` (7 tokens)."
    ]


def test_every_other_pair_with_text_may_be_drawn_and_no_other(store_of: StoreOf) -> None:
    # 8 windows of the first document draw from 2 + 1 pairs with text.
    store = store_of(*numbered([8, 3, 2], empty=[9, 12]))
    drawn: set[int] = set()
    for seed in range(30):
        table = Windows(store, WindowConfig(), noise=ContextNoise(2, seed)).context
        assert table is not None
        drawn |= {int(s) for s in table[:8].ravel() if s >= 8}
    assert drawn == {8, 10, 11}


def test_all_positions_and_pairs_are_replaced_equally_often(store_of: StoreOf) -> None:
    sizes = [400] * 10
    store = store_of(*numbered(sizes))
    windows = Windows(store, WindowConfig(), noise=ContextNoise(2, 7))
    assert windows.context is not None
    own = windows.sentences[:, None] - np.arange(3, 0, -1)
    full = (windows.context != ABSENT).all(axis=1)
    replaced = (windows.context != own)[full]
    # 3970 windows, two thirds each; the deviation of the share is 0.75%.
    assert np.abs(replaced.mean(axis=0) - 2 / 3).max() < 0.03
    foreign = windows.context[full][replaced]
    per_document = Counter(store.document_of[foreign].tolist())
    # 7940 draws, 794 for each document; the deviation is 27.
    assert max(abs(count - 794) for count in per_document.values()) < 110
    assert len(per_document) == 10


def test_noise_comes_from_the_subset_alone(store_of: StoreOf) -> None:
    store = store_of(*numbered([5, 5, 5]))
    windows = Windows(store, WindowConfig(), documents=np.array([0, 2]), noise=ContextNoise(2, 1))
    assert windows.context is not None
    present = windows.context[windows.context != ABSENT]
    assert set(store.document_of[present].tolist()) == {0, 2}


@pytest.mark.parametrize("sizes", [[6], [6, 2]])
def test_a_corpus_with_text_in_one_document_cannot_be_noisy(
    store_of: StoreOf, sizes: list[int]
) -> None:
    store = store_of(*numbered(sizes, empty=[6, 7]))
    message = (
        rf"1 of {len(sizes)} documents have a sentence pair with text.*`windows.noisy_context`"
    )
    with pytest.raises(DataError, match=message):
        Windows(store, WindowConfig(), noise=ContextNoise(2, 1))


def test_the_configuration_says_how_noisy_training_is() -> None:
    assert context_noise(WindowConfig()) is None
    config = WindowConfig(noisy_context=2, noise_seed=5)
    assert context_noise(config) == ContextNoise(replaced=2, seed=5)


def test_windows_are_only_noisy_on_request(store_of: StoreOf) -> None:
    store = store_of(*numbered([4, 4]))
    windows = Windows(store, WindowConfig(noisy_context=2))
    assert source_sentences(windows[0, 3]) == [0, 1, 2, 3]


def test_noise_is_described_for_the_manifest(store_of: StoreOf) -> None:
    store = store_of(*numbered([4, 1, 3]))
    described = describe_noise(store, ContextNoise(2, 1), context=3)
    # 0 + 1 + 1 + 2, then 0, then 0 + 1 + 1.
    assert described["pairs"] == 6
    assert (described["context"], described["replaced"], described["seed"]) == (3, 2, 1)
    assert described == describe_noise(store, ContextNoise(2, 1), context=3)
    other = describe_noise(store, ContextNoise(2, 2), context=3)
    assert len(described["sha256"]) == 64
    assert described["sha256"] != other["sha256"]
    part = describe_noise(store, ContextNoise(2, 1), context=3, documents=np.array([0, 1]))
    assert part["pairs"] == 4
