"""Windows: layout by hand, the loss once per sentence, boundaries, and the length limit."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import IGNORED, Role, Window
from iada.data.windows.windows import Windows
from iada.errors import DataError

BOS, EOS, SEP = 1, 2, 4
S, X, Y = Role.SPECIAL, Role.CONTEXT, Role.CURRENT

StoreOf = Callable[..., TokenStore]
Sentence = list[int]
Pair = tuple[Sentence, Sentence]


def all_windows(windows: Windows) -> list[Window]:
    return [windows[0, number] for number in range(len(windows))]


DOCUMENT: list[Pair] = [([10], [20]), ([11, 12], [21]), ([13], [22, 23])]


def test_a_window_is_context_separators_and_the_current_sentence(store_of: StoreOf) -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=2))[3, 2]
    assert window.source_ids.tolist() == [10, SEP, 11, 12, SEP, 13, EOS]
    assert window.source_roles.tolist() == [X, S, X, X, S, Y, S]
    assert window.target_ids.tolist() == [BOS, 20, SEP, 21, SEP, 22, 23]
    assert window.target_roles.tolist() == [S, X, S, X, S, Y, Y]
    assert window.labels.tolist() == [IGNORED] * 4 + [22, 23, EOS]
    assert (window.epoch, window.sentence) == (3, 2)


def test_the_loss_on_all_sentences_also_teaches_context_and_separators(store_of: StoreOf) -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=2, loss_on="all"))[0, 2]
    assert window.labels.tolist() == [20, SEP, 21, SEP, 22, 23, EOS]


def test_the_labels_are_the_decoder_input_one_position_later(store_of: StoreOf) -> None:
    for window in all_windows(Windows(store_of(DOCUMENT), WindowConfig(loss_on="all"))):
        assert window.labels[:-1].tolist() == window.target_ids[1:].tolist()


def test_a_window_at_a_document_start_has_no_placeholders(store_of: StoreOf) -> None:
    windows = all_windows(Windows(store_of(DOCUMENT), WindowConfig(context=3)))
    assert [int((w.source_ids == SEP).sum()) for w in windows] == [0, 1, 2]


def test_the_window_of_a_first_sentence_is_that_of_a_sentence_system(store_of: StoreOf) -> None:
    store = store_of(DOCUMENT, DOCUMENT)
    with_context = Windows(store, WindowConfig(context=3))
    alone = Windows(store, WindowConfig(context=0))
    for first in (0, 3):
        one, other = with_context[0, first], alone[0, first]
        assert one.source_ids.tolist() == other.source_ids.tolist()
        assert one.target_ids.tolist() == other.target_ids.tolist()
        assert one.labels.tolist() == other.labels.tolist()


def test_windows_never_cross_a_document_boundary(store_of: StoreOf) -> None:
    windows = Windows(store_of([([10], [20])], [([11], [21])]), WindowConfig(context=3))
    assert windows[0, 1].source_ids.tolist() == [11, EOS]
    assert windows[0, 1].target_ids.tolist() == [BOS, 21]


def test_the_oldest_context_is_dropped_on_both_sides_together(
    store_of: StoreOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The last window needs 4 + 3 + 2 target tokens with their separators; without the first, 5.
    document: list[Pair] = [([10], [20, 21, 22]), ([11], [23, 24]), ([12], [25])]
    with caplog.at_level(logging.WARNING):
        windows = Windows(store_of(document), WindowConfig(context=2, max_length=7))
    assert windows[0, 2].source_ids.tolist() == [11, SEP, 12, EOS]
    assert windows[0, 2].target_ids.tolist() == [BOS, 23, 24, SEP, 25]
    assert windows[0, 1].target_ids.tolist() == [BOS, 20, 21, 22, SEP, 23, 24]
    assert caplog.messages == [
        "1 of 3 windows lost their oldest context to fit `windows.max_length` (7 tokens)."
    ]


def test_a_window_that_fits_exactly_is_kept_whole(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    # 1 + <sep> + 2 + </s> = 5 source tokens, 1 + <sep> + 1 + </s> = 4 target tokens.
    windows = Windows(store_of(DOCUMENT[:2]), WindowConfig(context=1, max_length=5))
    assert windows.lengths().tolist() == [[2, 2], [5, 4]]
    assert caplog.messages == []


def test_a_sentence_that_is_too_long_by_itself_is_named(store_of: StoreOf) -> None:
    long: Pair = ([10], [20, 21, 22, 23])
    message = r"doc2: sentence 2 needs 5 tokens but `windows\.max_length` is 4 \(2 such sentences\)"
    with pytest.raises(DataError, match=message):
        Windows(store_of(DOCUMENT[:1], [([10], [20]), long, long]), WindowConfig(max_length=4))


def test_a_pair_with_an_empty_side_is_context_but_no_window(
    store_of: StoreOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    document: list[Pair] = [([], [20]), ([10], []), ([11], [21])]
    with caplog.at_level(logging.WARNING):
        windows = Windows(store_of(document), WindowConfig(context=2))
    assert len(windows) == 1
    assert windows[0, 0].source_ids.tolist() == [SEP, 10, SEP, 11, EOS]
    assert windows[0, 0].target_ids.tolist() == [BOS, 20, SEP, SEP, 21]
    assert windows[0, 0].labels.tolist() == [IGNORED] * 3 + [21, EOS]
    assert windows[0, 0].sentence == 2
    assert caplog.messages == [
        "2 of 3 windows have a current part with an empty side: kept as context, not trained on."
    ]


def test_a_corpus_without_a_full_pair_is_refused(store_of: StoreOf) -> None:
    with pytest.raises(DataError, match="No sentence pair has text on both sides"):
        Windows(store_of([([], [20]), ([10], [])]), WindowConfig())


def test_a_current_part_of_several_sentences_is_learned_with_its_separators(
    store_of: StoreOf,
) -> None:
    windows = Windows(store_of(DOCUMENT), WindowConfig(context=1, stride=2))
    first, second = all_windows(windows)
    assert first.source_ids.tolist() == [10, SEP, 11, 12, EOS]
    assert first.source_roles.tolist() == [Y, S, Y, Y, S]
    assert first.target_ids.tolist() == [BOS, 20, SEP, 21]
    assert first.labels.tolist() == [20, SEP, 21, EOS]
    assert second.target_ids.tolist() == [BOS, 21, SEP, 22, 23]
    assert second.labels.tolist() == [IGNORED, IGNORED, 22, 23, EOS]
    assert windows.lengths().tolist() == [[5, 4], [5, 5]]
    assert windows.loss_tokens() == 7
    # Windows that begin alike are told apart by how far they reach.
    assert (first.noise_key, second.noise_key) == ((0, 0, 2), (0, 2))


def test_all_sentences_of_a_multires_window_are_current(store_of: StoreOf) -> None:
    windows = Windows(store_of(DOCUMENT), WindowConfig(strategy="multires"))
    whole = all_windows(windows)[windows.spans.stop.tolist().index(3)]
    assert whole.labels.tolist() == [20, SEP, 21, SEP, 22, 23, EOS]
    assert whole.source_roles.tolist() == [Y, S, Y, Y, S, Y, S]
    assert windows.loss_tokens() == int(windows.lengths()[:, 1].sum())
    assert len({window.noise_key for window in all_windows(windows)}) == len(windows) == 5


def test_windows_of_a_subset_are_those_of_its_documents(store_of: StoreOf) -> None:
    store = store_of(DOCUMENT, [([14], [24])], DOCUMENT)
    everything, subset = (
        Windows(store, WindowConfig(context=1), documents=documents)
        for documents in (None, np.array([1, 2]))
    )
    assert everything.documents.tolist() == [0, 1, 2]
    assert subset.sentences.tolist() == [3, 4, 5, 6]
    for number in range(len(subset)):
        same = everything[0, number + 3]
        assert subset[0, number].source_ids.tolist() == same.source_ids.tolist()


tokens = st.lists(st.integers(6, 99), max_size=4)
# Every document begins with a pair that has text, so that there is a window.
full = st.tuples(*[st.lists(st.integers(6, 99), min_size=1, max_size=4)] * 2)
documents = st.lists(
    st.builds(
        lambda first, others: [first, *others],
        full,
        st.lists(st.tuples(tokens, tokens), max_size=6),
    ),
    min_size=1,
    max_size=4,
)
sliding_configs = st.builds(
    WindowConfig, context=st.integers(0, 4), stride=st.integers(1, 4), max_length=st.integers(5, 24)
)


def sentences_of(ids: list[int]) -> list[Sentence]:
    """Split tokens at their separators."""
    split: list[Sentence] = [[]]
    for token in ids:
        if token == SEP:
            split.append([])
        else:
            split[-1].append(token)
    return split


@settings(max_examples=100, deadline=None)
@given(documents, sliding_configs)
def test_joining_the_current_parts_restores_the_documents(
    store_of: StoreOf, content: list[list[Pair]], config: WindowConfig
) -> None:
    pairs = [pair for document in content for pair in document]
    restored: dict[int, Pair] = {}
    for window in all_windows(Windows(store_of(*content), config)):
        context = len(sentences_of(window.source_ids.tolist())) - window.sentences
        source = sentences_of(window.source_ids[:-1].tolist())[context:]
        target = sentences_of(window.target_ids[1:].tolist())[context:]
        for number, pair in enumerate(zip(source, target, strict=True), start=window.sentence):
            # No sentence is current twice.
            assert restored.setdefault(number, pair) is pair
    missing = set(range(len(pairs))) - set(restored)
    assert all(pairs[number] == pair for number, pair in restored.items())
    # Only what has an empty side is not trained on.
    assert not any(all(pairs[number]) for number in missing)
    if config.stride == 1:
        assert missing == {number for number, pair in enumerate(pairs) if not all(pair)}


@settings(max_examples=100, deadline=None)
@given(documents, sliding_configs)
def test_the_loss_covers_each_trained_sentence_and_its_end_once(
    store_of: StoreOf, content: list[list[Pair]], config: WindowConfig
) -> None:
    windows = Windows(store_of(*content), config)
    targets = [target for document in content for _, target in document]
    learned: dict[int, Sentence] = {}
    for window in all_windows(windows):
        *labels, end = window.labels[window.labels != IGNORED].tolist()
        assert end == EOS
        # As many separators and ends as sentences.
        assert labels.count(SEP) == window.sentences - 1
        for number, target in enumerate(sentences_of(labels), start=window.sentence):
            assert number not in learned
            learned[number] = target
    assert all(targets[number] == target for number, target in learned.items())
    ranges = zip(windows.spans.current, windows.spans.stop, strict=True)
    assert sorted(learned) == [s for begin, stop in ranges for s in range(begin, stop)]
    assert windows.loss_tokens() == sum(len(target) + 1 for target in learned.values())


@settings(max_examples=100, deadline=None)
@given(documents, sliding_configs, st.sampled_from(["sliding", "multires"]))
def test_windows_fit_on_both_sides_and_stay_within_a_document(
    store_of: StoreOf, content: list[list[Pair]], config: WindowConfig, strategy: str
) -> None:
    if strategy == "multires":
        config = WindowConfig(strategy="multires", max_length=config.max_length)
    pairs = [pair for document in content for pair in document]
    store = store_of(*content)
    windows = Windows(store, config)
    spans = zip(windows.spans.first, windows.spans.current, windows.spans.stop, strict=True)
    for window, lengths, (first, current, stop) in zip(
        all_windows(windows), windows.lengths().tolist(), spans, strict=True
    ):
        assert lengths == [len(window.source_ids), len(window.target_ids)]
        assert max(lengths) <= config.max_length
        assert first <= current < stop
        assert store.document_of[first] == store.document_of[stop - 1]
        assert (window.sentence, window.sentences) == (current, stop - current)
        # The context is the sentences right before the current part, none left out.
        source, target = zip(*pairs[first:stop], strict=True)
        assert sentences_of(window.source_ids[:-1].tolist()) == list(source)
        assert sentences_of(window.target_ids[1:].tolist()) == list(target)


@settings(max_examples=30, deadline=None)
@given(documents, st.integers(0, 4), st.integers(1, 3))
def test_the_count_of_labels_is_right_for_the_loss_on_all_sentences(
    store_of: StoreOf, content: list[list[Pair]], context: int, stride: int
) -> None:
    config = WindowConfig(context=context, stride=stride, loss_on="all")
    windows = Windows(store_of(*content), config)
    labels = [w.labels for w in all_windows(windows)]
    assert windows.loss_tokens() == sum(int((row != IGNORED).sum()) for row in labels)
    assert all(bool((row != IGNORED).all()) for row in labels)
