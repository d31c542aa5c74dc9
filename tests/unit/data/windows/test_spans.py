"""Spans: the strategies by hand, against a slow reading of the rules, and their messages."""

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.data.prepared.store import Offsets, TokenStore
from iada.data.windows.frame import Frame
from iada.data.windows.spans import Spans, measure_sentences, part_of, split_long_sentences
from iada.data.windows.spans import current_parts as cut_parts
from iada.data.windows.spans import with_context as put_context
from iada.errors import ConfigError, DataError

StoreOf = Callable[..., TokenStore]
Pair = tuple[Sequence[int], Sequence[int]]
Triple = tuple[int, int, int]


def plain(sentences: int) -> list[Pair]:
    """A document of one-token sentences."""
    return [([10], [20])] * sentences


def everything(store: TokenStore) -> Offsets:
    return np.arange(len(store.document_names))


def current_parts(store: TokenStore, config: WindowConfig, documents: Offsets) -> Spans:
    measure = measure_sentences(store, config, Frame.stock(store.special))
    return cut_parts(store, config, documents, measure)


def with_context(store: TokenStore, parts: Spans, config: WindowConfig) -> Spans:
    frame = Frame.stock(store.special)
    return put_context(store, parts, config, measure_sentences(store, config, frame), frame)


def triples(spans: Spans) -> list[Triple]:
    columns = (spans.first.tolist(), spans.current.tolist(), spans.stop.tolist())
    return list(zip(*columns, strict=True))


def sliding(store: TokenStore, config: WindowConfig) -> list[Triple]:
    return triples(with_context(store, current_parts(store, config, everything(store)), config))


def multires(store: TokenStore, max_length: int = 512) -> list[tuple[int, int]]:
    config = WindowConfig(strategy="multires", max_length=max_length)
    spans = triples(current_parts(store, config, everything(store)))
    assert all(first == current for first, current, _ in spans)
    return [(current, stop) for _, current, stop in spans]


def test_the_current_part_is_the_next_stride_sentences(store_of: StoreOf) -> None:
    store = store_of(plain(5), plain(2))
    spans = sliding(store, WindowConfig(context=1, stride=2))
    assert spans == [(0, 0, 2), (1, 2, 4), (3, 4, 5), (5, 5, 7)]


def test_a_stride_of_one_gives_every_sentence_a_window(store_of: StoreOf) -> None:
    spans = sliding(store_of(plain(3), plain(1)), WindowConfig(context=1))
    assert spans == [(0, 0, 1), (0, 1, 2), (1, 2, 3), (3, 3, 4)]


def test_a_current_part_that_does_not_fit_is_shortened_and_the_next_begins_earlier(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    # Three sentences need 2 + 3 + 2 target tokens with their separators, two need 5.
    document: list[Pair] = [([10], [20]), ([11], [21, 22]), ([12], [23]), ([13], [24])]
    with caplog.at_level(logging.WARNING):
        spans = sliding(store_of(document), WindowConfig(context=0, stride=3, max_length=6))
    assert spans == [(0, 0, 2), (2, 2, 4)]
    assert caplog.messages == [
        "1 of 2 windows have fewer current sentences than `windows.stride` (3) to fit "
        "`windows.max_length` (6 tokens); the next window begins earlier."
    ]


def test_only_the_chosen_documents_are_cut(store_of: StoreOf) -> None:
    # The second document has a sentence that no window could hold.
    store = store_of(plain(3), [([10], [20] * 9), ([10], [20])], plain(2))
    config = WindowConfig(context=1, stride=2, max_length=6)
    chosen = np.array([0, 2])
    spans = with_context(store, current_parts(store, config, chosen), config)
    assert triples(spans) == [(0, 0, 2), (1, 2, 3), (5, 5, 7)]
    parts = current_parts(store, WindowConfig(strategy="multires", max_length=6), chosen)
    assert sorted(set(parts.current.tolist())) == [0, 1, 2, 5, 6]
    with pytest.raises(DataError, match=r"doc2: sentence 1 needs 10 tokens"):
        current_parts(store, config, np.array([1, 2]))


tokens = st.lists(st.integers(6, 99), max_size=4)
documents_strategy = st.lists(
    st.lists(st.tuples(tokens, tokens), min_size=1, max_size=9), min_size=1, max_size=4
)


def read_rules(document: Sequence[Pair], config: WindowConfig) -> Iterator[Triple]:
    """Cut one document by the letter of the rules, sentence by sentence."""

    def fits(first: int, stop: int) -> bool:
        sides = zip(*document[first:stop], strict=True)
        return all(sum(len(s) + 1 for s in side) <= config.max_length for side in sides)

    current = 0
    while current < len(document):
        stop = current + 1
        while stop < min(current + config.stride, len(document)) and fits(current, stop + 1):
            stop += 1
        first = max(0, current - config.context)
        while not fits(first, stop):
            first += 1
        sides = zip(*document[current:stop], strict=True)
        if all(any(side) for side in sides):
            yield first, current, stop
        current = stop


@settings(max_examples=150, deadline=None)
@given(documents_strategy, st.integers(0, 4), st.integers(1, 5), st.integers(5, 30))
def test_sliding_windows_follow_the_rules(
    store_of: StoreOf, content: list[list[Pair]], context: int, stride: int, max_length: int
) -> None:
    config = WindowConfig(context=context, stride=stride, max_length=max_length)
    starts = np.cumsum([0, *map(len, content)]).tolist()
    expected = [
        (start + first, start + current, start + stop)
        for start, document in zip(starts, content, strict=False)
        for first, current, stop in read_rules(document, config)
    ]
    if not expected:
        with pytest.raises(DataError, match="No sentence pair has text on both sides"):
            sliding(store_of(*content), config)
        return
    assert sliding(store_of(*content), config) == expected


def test_a_document_of_eight_has_fifteen_parts(store_of: StoreOf) -> None:
    parts = multires(store_of(plain(8)))
    assert len(parts) == len(set(parts)) == 15
    assert {(0, 8), (0, 4), (4, 8), (0, 2), (2, 4), (4, 6), (6, 8)} <= set(parts)


def test_an_odd_document_is_cut_as_equally_as_possible(store_of: StoreOf) -> None:
    # 5, then 2 + 3, then 1 + 1 + 1 + 2, then single sentences.
    parts = multires(store_of(plain(5)))
    assert sorted(parts) == sorted(
        [(0, 5), (0, 2), (2, 5), (0, 1), (1, 2), (2, 3), (3, 5), (3, 4), (4, 5)]
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=3))
def test_every_resolution_restores_the_document_in_equal_parts(
    store_of: StoreOf, sizes: list[int]
) -> None:
    found = set(multires(store_of(*map(plain, sizes))))
    expected = set()
    for stop, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
        resolution = [(stop - size, stop)]
        while True:
            assert set(resolution) <= found
            expected |= set(resolution)
            lengths = [end - begin for begin, end in resolution]
            assert max(lengths) - min(lengths) <= 1
            if max(lengths) == 1:
                break
            resolution = [half for part in resolution for half in halves(part, found)]
    assert found == expected
    assert len(found) == sum(2 * size - 1 for size in sizes)


def halves(part: tuple[int, int], found: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The two parts that a part is cut into; a single sentence stays as it is."""
    begin, end = part
    cuts = [c for c in range(begin + 1, end) if {(begin, c), (c, end)} <= found]
    if end - begin == 1:
        return [part]
    (cut,) = cuts
    return [(begin, cut), (cut, end)]


def test_parts_that_are_too_long_are_left_out_and_counted(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    # Four one-token sentences need 8 tokens with their separators.
    with caplog.at_level(logging.WARNING):
        parts = multires(store_of(plain(8)), max_length=7)
    assert len(parts) == 12
    assert max(stop - current for current, stop in parts) == 2
    assert caplog.messages == [
        "3 of 15 parts are longer than `windows.max_length` (7 tokens): left out, "
        "their halves remain."
    ]
    assert len(multires(store_of(plain(8)), max_length=8)) == 14


def test_a_single_sentence_that_is_too_long_is_refused_at_any_resolution(store_of: StoreOf) -> None:
    with pytest.raises(DataError, match=r"doc2: sentence 3 needs 5 tokens"):
        multires(store_of(plain(2), [*plain(2), ([10] * 4, [20])]), max_length=4)


def test_parts_without_text_on_a_side_are_left_out(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    document: list[Pair] = [([10], []), ([11], []), ([], [22]), ([13], [23])]
    with caplog.at_level(logging.WARNING):
        parts = multires(store_of(document))
    # A part needs text on both sides, be it in different sentences.
    assert sorted(parts) == [(0, 4), (2, 4), (3, 4)]
    assert caplog.messages == [
        "4 of 7 windows have a current part with an empty side: kept as context, not trained on."
    ]


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"stride": 0}, r"`windows\.stride` must be 1 or more, but is 0"),
        ({"strategy": "multires", "stride": 2}, r"`windows\.stride` must be 1 with .*multires"),
        (
            {"noisy_context": 4},
            r"`windows\.noisy_context` must be between 0 and `windows\.context`",
        ),
        ({"strategy": "multires", "noisy_context": 1}, r"`windows\.noisy_context` must be 0 with"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings_: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        WindowConfig(**settings_)  # type: ignore[arg-type]


LONG: Pair = ([10] * 9, [20])


def test_a_long_sentence_can_be_left_out_and_is_counted(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of([*plain(2), LONG, *plain(2)])
    config = WindowConfig(max_length=6, context=3, on_long="leave_out")
    with caplog.at_level(logging.WARNING):
        found = sliding(store, config)
    # Sentence 2 is no window, and no context of those after it.
    assert found == [(0, 0, 1), (0, 1, 2), (3, 3, 4), (3, 4, 5)]
    assert "1 of 5 windows have a current sentence longer than `windows.max_length`" in caplog.text
    assert "2 of 4 windows lost their oldest context" in caplog.text


def test_a_wide_part_stops_before_a_long_sentence(store_of: StoreOf) -> None:
    store = store_of([*plain(2), LONG, *plain(2)])
    config = WindowConfig(max_length=6, context=0, stride=4, on_long="leave_out")
    assert sliding(store, config) == [(0, 0, 2), (3, 3, 5)]


def test_nothing_but_long_sentences_is_refused(store_of: StoreOf) -> None:
    config = WindowConfig(max_length=6, on_long="leave_out")
    with pytest.raises(DataError, match=r"Every sentence is longer than `windows\.max_length`"):
        sliding(store_of([LONG]), config)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=14), limit=st.integers(10, 60))
def test_the_parts_of_a_document_are_the_largest_that_training_has(
    store_of: StoreOf, lengths: list[int], limit: int
) -> None:
    """The same cuts as in training, where both sides are the same text."""
    store = store_of([([10] * length, [20] * length) for length in lengths])
    frame = Frame.stock(store.special)
    config = WindowConfig(strategy="multires", max_length=limit)
    trained = multires(store, limit) if any(lengths) else []
    number, parts = 0, []
    while number < len(lengths):
        first, stop = part_of(lengths, number, config, frame)
        assert first == number
        parts.append((first, stop))
        number = stop
    for first, stop in parts:
        assert len(frame.source([[10] * length for length in lengths[first:stop]])) <= limit
        # Training leaves out parts without text, and no part that fits holds this one.
        assert (first, stop) in trained or not any(lengths[first:stop])
        larger = [(f, s) for f, s in trained if f <= first and s >= stop and s - f > stop - first]
        assert larger == []


STARTS = np.array([number % 10 == 0 for number in range(100)])
"""Pieces 10, 20, 30, ... begin a word."""


def split_long(store: TokenStore, max_length: int) -> TokenStore:
    config = WindowConfig(max_length=max_length, on_long="split")
    return split_long_sentences(store, config, Frame.stock(store.special), STARTS)


def sentences(store: TokenStore) -> list[tuple[list[int], ...]]:
    """The tokens of every sentence on each side; `<sep>` ends each."""
    found = []
    for number in range(len(store)):
        spans = [side.ids[side.offsets[number] : side.offsets[number + 1]] for side in store.sides]
        assert [span[-1] for span in spans] == [store.special.sep] * len(spans)
        found.append(tuple(span[:-1].tolist() for span in spans))
    return found


def test_a_long_pair_is_cut_at_words_on_both_sides(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    long = ([10, 11, 20, 21, 22, 30, 31, 40], [50, 51, 52, 60])
    store = split_long(store_of(plain(1), [([10], [20]), long, ([30], [40])]), 6)
    assert sentences(store) == [
        ([10], [20]),
        ([10], [20]),
        # No word of the target begins near its middle.
        ([10, 11, 20, 21, 22], [50, 51]),
        ([30, 31, 40], [52, 60]),
        ([30], [40]),
    ]
    assert store.document_starts.tolist() == [0, 1, 5]
    assert "1 sentence pairs are longer than `windows.max_length` (6 tokens): cut into 2" in (
        caplog.text
    )


def test_a_pair_that_cannot_be_cut_alike_is_left_out_later(store_of: StoreOf) -> None:
    store = store_of([([10] * 20, [50]), ([10], [20])])
    assert split_long(store, 6) is store
    config = WindowConfig(max_length=6, on_long="split", context=0)
    assert sliding(store, config) == [(1, 1, 2)]


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(
            st.lists(st.integers(10, 99), max_size=30), st.lists(st.integers(10, 99), max_size=30)
        ),
        min_size=1,
        max_size=5,
    ),
    max_length=st.integers(4, 12),
)
def test_cut_sentences_have_the_tokens_they_had_and_fit(
    store_of: StoreOf, pairs: list[tuple[list[int], list[int]]], max_length: int
) -> None:
    store = store_of(pairs)
    cut = split_long(store, max_length)
    for side in (0, 1):
        tokens = [token for pair in sentences(cut) for token in pair[side]]
        assert tokens == [token for pair in pairs for token in pair[side]]
    longest = max_length - 1
    for source, target in sentences(cut):
        is_cut = (source, target) not in pairs
        assert not is_cut or max(len(source), len(target)) <= longest
    assert cut.document_starts.tolist() == [0, len(cut)]
