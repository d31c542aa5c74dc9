"""Windows: layout by hand, the loss once per sentence, boundaries, and the length limit."""

import logging
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.data.roles import Role
from iada.data.store import Side, TokenStore
from iada.data.subwords import SpecialIds
from iada.data.windows import IGNORED, Window, Windows
from iada.errors import DataError

PAD, BOS, EOS, UNK, SEP, MASK = range(6)
SPECIAL = SpecialIds(pad=PAD, bos=BOS, eos=EOS, unk=UNK, sep=SEP, mask=MASK)
S, X, Y = Role.SPECIAL, Role.CONTEXT, Role.CURRENT

Sentence = list[int]
Pair = tuple[Sentence, Sentence]


def store_of(*documents: list[Pair]) -> TokenStore:
    """Build a store from token ids: documents of (source, target) sentences."""
    pairs = [pair for document in documents for pair in document]
    sizes = [len(document) for document in documents]
    return TokenStore(
        source=Side.of([source for source, _ in pairs], SEP),
        target=Side.of([target for _, target in pairs], SEP),
        document_of=np.repeat(np.arange(len(sizes)), sizes),
        document_starts=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        document_names=tuple(f"doc{number}" for number in range(1, len(sizes) + 1)),
        special=SPECIAL,
    )


def all_windows(windows: Windows) -> list[Window]:
    return [windows[0, number] for number in range(len(windows))]


DOCUMENT: list[Pair] = [([10], [20]), ([11, 12], [21]), ([13], [22, 23])]


def test_a_window_is_context_separators_and_the_current_sentence() -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=2))[3, 2]
    assert window.source_ids.tolist() == [10, SEP, 11, 12, SEP, 13, EOS]
    assert window.source_roles.tolist() == [X, S, X, X, S, Y, S]
    assert window.target_ids.tolist() == [BOS, 20, SEP, 21, SEP, 22, 23]
    assert window.target_roles.tolist() == [S, X, S, X, S, Y, Y]
    assert window.labels.tolist() == [IGNORED] * 4 + [22, 23, EOS]
    assert (window.epoch, window.sentence) == (3, 2)


def test_the_loss_on_all_sentences_also_teaches_context_and_separators() -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=2, loss_on="all"))[0, 2]
    assert window.labels.tolist() == [20, SEP, 21, SEP, 22, 23, EOS]


def test_the_labels_are_the_decoder_input_one_position_later() -> None:
    for window in all_windows(Windows(store_of(DOCUMENT), WindowConfig(loss_on="all"))):
        assert window.labels[:-1].tolist() == window.target_ids[1:].tolist()


def test_a_window_at_a_document_start_has_no_placeholders() -> None:
    windows = all_windows(Windows(store_of(DOCUMENT), WindowConfig(context=3)))
    assert [int((w.source_ids == SEP).sum()) for w in windows] == [0, 1, 2]


def test_the_window_of_a_first_sentence_is_that_of_a_sentence_system() -> None:
    store = store_of(DOCUMENT, DOCUMENT)
    with_context = Windows(store, WindowConfig(context=3))
    alone = Windows(store, WindowConfig(context=0))
    for first in (0, 3):
        one, other = with_context[0, first], alone[0, first]
        assert one.source_ids.tolist() == other.source_ids.tolist()
        assert one.target_ids.tolist() == other.target_ids.tolist()
        assert one.labels.tolist() == other.labels.tolist()


def test_windows_never_cross_a_document_boundary() -> None:
    windows = Windows(store_of([([10], [20])], [([11], [21])]), WindowConfig(context=3))
    assert windows[0, 1].source_ids.tolist() == [11, EOS]
    assert windows[0, 1].target_ids.tolist() == [BOS, 21]


def test_the_oldest_context_is_dropped_on_both_sides_together(
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


def test_a_window_that_fits_exactly_is_kept_whole(caplog: pytest.LogCaptureFixture) -> None:
    # 1 + <sep> + 2 + </s> = 5 source tokens, 1 + <sep> + 1 + </s> = 4 target tokens.
    windows = Windows(store_of(DOCUMENT[:2]), WindowConfig(context=1, max_length=5))
    assert windows.lengths().tolist() == [[2, 2], [5, 4]]
    assert caplog.messages == []


def test_a_sentence_that_is_too_long_by_itself_is_named() -> None:
    long: Pair = ([10], [20, 21, 22, 23])
    message = r"doc2: sentence 2 needs 5 tokens but `windows\.max_length` is 4 \(2 such sentences\)"
    with pytest.raises(DataError, match=message):
        Windows(store_of(DOCUMENT[:1], [([10], [20]), long, long]), WindowConfig(max_length=4))


def test_a_pair_with_an_empty_side_is_context_but_no_window(
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
        "2 of 3 sentence pairs have an empty side: kept as context, not trained on."
    ]


def test_a_corpus_without_a_full_pair_is_refused() -> None:
    with pytest.raises(DataError, match="No sentence pair has text on both sides"):
        Windows(store_of([([], [20]), ([10], [])]), WindowConfig())


tokens = st.lists(st.integers(6, 99), min_size=1, max_size=4)
documents = st.lists(
    st.lists(st.tuples(tokens, tokens), min_size=1, max_size=6), min_size=1, max_size=4
)
limits = st.integers(5, 20)


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(0, 4), limits)
def test_joining_the_current_sentences_restores_the_documents(
    content: list[list[Pair]], context: int, max_length: int
) -> None:
    store = store_of(*content)
    windows = Windows(store, WindowConfig(context=context, max_length=max_length))
    restored: list[list[Pair]] = [[] for _ in content]
    for window in all_windows(windows):
        source = window.source_ids[window.source_roles == Role.CURRENT].tolist()
        target = window.target_ids[window.target_roles == Role.CURRENT].tolist()
        restored[store.document_of[window.sentence]].append((source, target))
    assert restored == content


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(0, 4), limits)
def test_the_loss_covers_each_target_sentence_and_its_end_once(
    content: list[list[Pair]], context: int, max_length: int
) -> None:
    windows = Windows(store_of(*content), WindowConfig(context=context, max_length=max_length))
    learned = [w.labels[w.labels != IGNORED].tolist() for w in all_windows(windows)]
    assert learned == [[*target, EOS] for document in content for _, target in document]
    assert windows.loss_tokens() == sum(map(len, learned))


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(0, 4), limits)
def test_windows_have_the_promised_length_and_as_much_context_as_fits(
    content: list[list[Pair]], context: int, max_length: int
) -> None:
    windows = Windows(store_of(*content), WindowConfig(context=context, max_length=max_length))
    positions = [(document, i) for document in content for i in range(len(document))]
    for window, lengths, (document, i) in zip(
        all_windows(windows), windows.lengths().tolist(), positions, strict=True
    ):
        assert lengths == [len(window.source_ids), len(window.target_ids)]
        assert max(lengths) <= max_length
        used = int((window.source_ids == SEP).sum())
        assert used == int((window.target_ids == SEP).sum())
        if used < min(context, i):
            # One sentence more would not have fitted on one of the sides.
            more = document[i - used - 1 : i + 1]
            assert (
                max(sum(len(side) + 1 for side in sides) for sides in zip(*more, strict=True))
                > max_length
            )


@settings(max_examples=30, deadline=None)
@given(documents, st.integers(0, 4))
def test_the_count_of_labels_is_right_for_the_loss_on_all_sentences(
    content: list[list[Pair]], context: int
) -> None:
    windows = Windows(store_of(*content), WindowConfig(context=context, loss_on="all"))
    labels = [w.labels for w in all_windows(windows)]
    assert windows.loss_tokens() == sum(int((row != IGNORED).sum()) for row in labels)
    assert all(bool((row != IGNORED).all()) for row in labels)


@settings(max_examples=30, deadline=None)
@given(documents)
def test_neighbouring_windows_share_their_sentences(content: list[list[Pair]]) -> None:
    windows = all_windows(Windows(store_of(*content), WindowConfig(context=1)))
    starts = np.cumsum([0] + [len(document) for document in content])
    for before, after in pairwise(windows):
        if after.sentence in starts:
            continue
        current = before.source_ids[before.source_roles == Role.CURRENT]
        context = after.source_ids[after.source_roles == Role.CONTEXT]
        assert current.tolist() == context.tolist()
