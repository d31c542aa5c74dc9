"""Documents left to right: what an engine is asked, in which order, and with which context."""

import logging
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.subwords import Subwords
from iada.decoding.requests import Request, batches
from iada.decoding.wavefront import translate_documents
from iada.errors import DataError


class FakeEngine:
    """Translate the current sentence by a function of its text, and remember every request."""

    name = "fake"

    def __init__(self, subwords: Subwords, answer: Callable[[str], str] = str.upper) -> None:
        self.subwords = subwords
        self.answer = answer
        self.calls: list[list[Request]] = []

    def translate(self, requests: Sequence[Request]) -> list[list[int]]:
        self.calls.append(list(requests))
        return self.subwords.encode([self.answer(self.current(r)) for r in requests])

    def current(self, request: Request) -> str:
        return self.sentences(request.source[:-1])[-1]

    def sentences(self, ids: Sequence[int]) -> list[str]:
        """Split at `<sep>` and decode."""
        parts: list[list[int]] = [[]]
        for i in ids:
            if i == self.subwords.special.sep:
                parts.append([])
            else:
                parts[-1].append(i)
        return [self.subwords.decode(part) for part in parts]


def translate(
    engine: FakeEngine,
    documents: Sequence[Sequence[str]],
    *,
    context: int = 3,
    max_length: int = 512,
    max_tokens: int = 8192,
    max_positions: int = 1024,
) -> list[list[str]]:
    translated = translate_documents(
        [Document(f"doc{n}", tuple(sentences)) for n, sentences in enumerate(documents, start=1)],
        engine,
        engine.subwords,
        windows=WindowConfig(context=context, max_length=max_length),
        decode=DecodeConfig(max_tokens=max_tokens),
        max_positions=max_positions,
    )
    return [list(document.sentences) for document in translated]


def test_each_sentence_sees_the_source_and_its_own_translations_before_it(
    subwords: Subwords,
) -> None:
    engine = FakeEngine(subwords)
    special = subwords.special
    assert translate(engine, [["a", "b", "c"]], context=1) == [["A", "B", "C"]]
    requests = [request for call in engine.calls for request in call]
    assert [engine.sentences(r.source[:-1]) for r in requests] == [["a"], ["a", "b"], ["b", "c"]]
    # A prefix ends in `<sep>`, so nothing follows its last one.
    assert [engine.sentences(r.prefix[1:]) for r in requests] == [[""], ["A", ""], ["B", ""]]
    assert all(r.source[-1] == special.eos and r.prefix[0] == special.bos for r in requests)
    assert requests[0].prefix == (special.bos,)
    assert requests[1].prefix[-1] == special.sep


def test_the_context_is_segmented_as_in_training(subwords: Subwords) -> None:
    class Spelling(FakeEngine):
        """Answer with single bytes, which no encoding of this text would use."""

        def translate(self, requests: Sequence[Request]) -> list[list[int]]:
            super().translate(requests)
            (space,) = subwords.encode([" "])
            first = subwords.tokenizer.token_to_id("<0x00>")
            return [[space[0], *(first + byte for byte in b"the")] for _ in requests]

    engine = Spelling(subwords)
    assert translate(engine, [["a", "b"]]) == [["the", "the"]]
    (encoded,) = subwords.encode(["the"])
    assert engine.calls[1][0].prefix[1:-1] == tuple(encoded)


def test_a_wave_holds_the_next_sentence_of_every_unfinished_document(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    translate(engine, [["a", "b", "c"], ["d"], ["e", "f"]])
    waves = [sorted(engine.current(r) for r in call) for call in engine.calls]
    assert waves == [["a", "d", "e"], ["b", "f"], ["c"]]


def test_an_empty_sentence_stays_empty_and_is_never_asked(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    assert translate(engine, [["", "a", "", ""], [""], []]) == [["", "A", "", ""], [""], []]
    assert [engine.current(r) for call in engine.calls for r in call] == ["a"]
    # The empty sentence before it is context all the same.
    assert engine.sentences(engine.calls[0][0].source[:-1]) == ["", "a"]


def test_an_empty_translation_stays_in_its_place(subwords: Subwords) -> None:
    engine = FakeEngine(subwords, answer=lambda text: "" if text == "a" else text)
    assert translate(engine, [["a", "b"]]) == [["", "b"]]
    special = subwords.special
    assert engine.calls[1][0].prefix == (special.bos, special.sep)


def test_nothing_in_is_nothing_out(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    assert translate(engine, []) == []
    assert engine.calls == []


words = st.lists(st.sampled_from(["", "a", "the cat", "it sat on"]), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(before=words, after=words, other=words)
def test_later_sentences_and_other_documents_change_nothing(
    subwords: Subwords, before: list[str], after: list[str], other: list[str]
) -> None:
    alone, together = FakeEngine(subwords), FakeEngine(subwords)
    translate(alone, [before])
    translate(together, [other, before + after])
    asked = {request for call in together.calls for request in call}
    assert {request for call in alone.calls for request in call} <= asked


@settings(max_examples=40, deadline=None)
@given(documents=st.lists(words, max_size=5), max_tokens=st.integers(20, 200))
def test_batches_respect_the_budget_and_keep_the_order(
    subwords: Subwords, documents: list[list[str]], max_tokens: int
) -> None:
    engine = FakeEngine(subwords)
    expected = [[sentence.upper() for sentence in document] for document in documents]
    assert translate(engine, documents, max_tokens=max_tokens) == expected
    for call in engine.calls:
        assert len(call) == 1 or len(call) * max(r.size for r in call) <= max_tokens


def test_the_oldest_context_is_dropped_when_the_source_is_too_long(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    (piece,) = subwords.encode(["a"])
    # With its `<sep>` or `</s>` each sentence takes this many tokens; two of them fit.
    size = len(piece) + 1
    translate(engine, [["a", "a", "a"]], context=2, max_length=2 * size)
    windows = [engine.sentences(call[0].source[:-1]) for call in engine.calls]
    assert windows == [["a"], ["a", "a"], ["a", "a"]]
    assert engine.sentences(engine.calls[2][0].prefix[1:]) == ["A", ""]


def test_the_oldest_context_is_dropped_when_the_prefix_leaves_no_room(subwords: Subwords) -> None:
    engine = FakeEngine(subwords, answer=lambda _: "the cat sat on the mat .")
    translate(engine, [["a", "a", "a", "a"]], max_positions=30)
    for call in engine.calls:
        assert len(call[0].prefix) + call[0].max_new < 30
    used = [call[0].prefix.count(subwords.special.sep) for call in engine.calls]
    assert used[:2] == [0, 1]
    assert used[3] < 3


def test_the_length_limit_follows_the_source_and_the_model(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    text = "the cat sat on the mat"
    (ids,) = subwords.encode([text])
    translate(engine, [[text]])
    translate(engine, [[text]], max_positions=12)
    assert [call[0].max_new for call in engine.calls] == [int(1.2 * len(ids)) + 10, 10]


def test_a_sentence_longer_than_the_model_was_trained_for_is_named(subwords: Subwords) -> None:
    text = "the cat sat on the mat"
    (ids,) = subwords.encode([text])
    message = rf"doc1: sentence 2 needs {len(ids) + 1} tokens .* at most {len(ids)}\. Split"
    engine = FakeEngine(subwords)
    with pytest.raises(DataError, match=message):
        translate(engine, [["a", text]], max_length=len(ids))
    # Before any work is done.
    assert engine.calls == []
    assert translate(FakeEngine(subwords), [["a", text]], max_length=len(ids) + 1)


def test_a_translation_is_one_line_whatever_bytes_the_model_says(subwords: Subwords) -> None:
    engine = FakeEngine(subwords, answer=lambda text: f"{text}\n{text}\r\0{text}")
    assert translate(engine, [["a"]]) == [["a a  a"]]


def test_translations_that_reach_the_limit_are_counted(
    subwords: Subwords, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(subwords, answer=lambda text: "x" * 40 if text == "b" else text)
    with caplog.at_level(logging.WARNING):
        translate(engine, [["a", "b"], ["a"]])
    assert caplog.messages == [
        "1 of 3 translations reached the length limit (1.2 times the source plus 10 tokens)."
    ]


def request(size: int) -> Request:
    return Request(source=(7,) * size, prefix=(1,), max_new=1)


def test_requests_of_like_size_share_a_batch() -> None:
    # Largest first: 2 x 10 and 3 x 5 fit a budget of 20, 30 does not and goes alone.
    sizes = [5, 10, 30, 4, 10, 3]
    assert batches([request(size) for size in sizes], 20) == [[2], [4, 1], [0, 3, 5]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(3, 50), max_size=30), st.integers(1, 100))
def test_batches_hold_every_request_once(sizes: list[int], budget: int) -> None:
    grouped = batches([request(size) for size in sizes], budget)
    assert sorted(number for batch in grouped for number in batch) == list(range(len(sizes)))
    for batch in grouped:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= budget


def test_the_size_of_a_request_is_that_of_its_longer_side() -> None:
    assert Request((7, 7, 2), (1,), 1).size == 3
    assert Request((7, 2), (1, 8, 4), 5).size == 8
