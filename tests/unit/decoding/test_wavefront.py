"""Documents left to right: what an engine is asked, in which order, and with which context."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.data.windows.frame import Frame
from iada.decoding.engines.interface import Hypothesis, Request, batches
from iada.decoding.requests import DocumentState, RequestRules, sample_context
from iada.decoding.wavefront import TranslationInput, Wavefront
from iada.errors import ConfigError, DataError, ModelError


class FakeEngine:
    """Translate the current sentence by a function of its text, and remember every request."""

    name = "fake"

    def __init__(self, subwords: Subwords, answer: Callable[[str], str] = str.upper) -> None:
        self.subwords = subwords
        self.answer = answer
        self.calls: list[list[Request]] = []

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        self.calls.append(list(requests))
        encoded = self.subwords.encode([self.answer(self.current(r)) for r in requests])
        return [[Hypothesis(tuple(ids), -1.0)] for ids in encoded]

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
    max_positions: int = 1024,
    decode: DecodeConfig | None = None,
    references: Sequence[Sequence[str]] | None = None,
) -> list[list[str]]:
    decode = decode or DecodeConfig()
    named = [Document(f"doc{n}", tuple(texts)) for n, texts in enumerate(documents, start=1)]
    inputs = [TranslationInput(document) for document in named]
    if references is not None:
        inputs = [
            TranslationInput(d, Document("r", tuple(r)))
            for d, r in zip(named, references, strict=True)
        ]
    windows = WindowConfig(context=context, max_length=max_length)
    sample = None
    if decode.source_context == "random":
        sample = sample_context(named, decode.context_seed)
    rules = RequestRules(windows, decode, engine.subwords.special, max_positions)
    wavefront = Wavefront(engine, engine.subwords, rules, sample)
    found = list(wavefront.translate(inputs))
    assert [f.document.name for f in found] == [d.name for d in named]
    assert wavefront.sentences == sum(map(len, documents))
    return [list(f.document.sentences) for f in found]


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


def test_a_request_is_written_in_the_frame_of_the_model(subwords: Subwords) -> None:
    eos, bos, sep = subwords.special.eos, subwords.special.bos, subwords.special.sep
    each = replace(Frame.stock(subwords.special), ends="each")
    a, b, c = subwords.encode(["a", "b", "c"])

    def requests(frame: Frame, max_length: int = 512) -> list[Request]:
        opened = DocumentState(0, Document("doc", ("a", "b", "c")), [a, b, c])
        windows = WindowConfig(context=2, max_length=max_length)
        rules = RequestRules(windows, DecodeConfig(), subwords.special, 100, frame)
        found = []
        for said in (b, c, a):
            found.append(opened.next_request(rules))
            opened.append("", said, [])
        return found

    last = requests(each)[-1]
    assert last.source == (*a, eos, *b, eos, *c, eos)
    assert last.prefix == (bos, *b, bos, *c, bos)
    first, second, _ = requests(replace(each, ends="once", target_context=False, after=1))
    assert first.source == (*a, sep, *b, eos)
    assert second.source == (*a, sep, *b, sep, *c, eos)
    assert first.prefix == second.prefix == (bos,)
    # Following sentences make room before the context does.
    _, second, _ = requests(replace(each, target_context=False, after=1), len(a) + len(b) + 2)
    assert second.source == (*a, eos, *b, eos)


def test_a_window_is_no_unit_for_models_that_translate_sentence_by_sentence(
    special: SpecialIds,
) -> None:
    frame = replace(Frame.stock(special), ends="each")
    with pytest.raises(ModelError, match=r"Set `decode.unit: sentence`"):
        RequestRules(WindowConfig(), DecodeConfig(unit="window"), special, 100, frame)


def requests_of_parts(
    subwords: Subwords, texts: Sequence[str], windows: WindowConfig, frame: Frame | None = None
) -> list[Request]:
    """Return the requests of a document whose translation is its source."""
    ids = subwords.encode(texts)
    opened = DocumentState(0, Document("doc", tuple(texts)), ids)
    rules = RequestRules(windows, DecodeConfig(unit="part"), subwords.special, 200, frame)
    found = []
    opened.skip_known()
    while not opened.is_finished:
        found.append(opened.next_request(rules))
        opened.append("", ids[len(opened.texts)], [])
        opened.skip_known()
    return found


def test_a_part_is_read_whole_and_written_sentence_by_sentence(subwords: Subwords) -> None:
    bos, sep, eos = subwords.special.bos, subwords.special.sep, subwords.special.eos
    a, b, c = subwords.encode(["a", "b", "c"])
    windows = WindowConfig(strategy="multires")
    found = requests_of_parts(subwords, ["a", "b", "c"], windows)
    assert {r.source for r in found} == {(*a, sep, *b, sep, *c, eos)}
    assert [r.prefix for r in found] == [(bos,), (bos, *a, sep), (bos, *a, sep, *b, sep)]
    assert [r.end for r in found] == [sep, sep, None]
    assert not any(r.may_separate for r in found)
    # An empty sentence is a separator, as in training.
    found = requests_of_parts(subwords, ["", "b", ""], windows)
    assert [(r.source, r.prefix, r.end) for r in found] == [((sep, *b, sep, eos), (bos, sep), sep)]


def test_a_document_that_is_too_long_is_translated_in_its_largest_parts(
    subwords: Subwords,
) -> None:
    eos, sep = subwords.special.eos, subwords.special.sep
    texts = ["a", "b", "c", "d", "e"]
    a, b, c, d, e = subwords.encode(texts)
    whole = sum(map(len, (a, b, c, d, e))) + 5
    windows = WindowConfig(strategy="multires", max_length=whole - 1)
    found = requests_of_parts(subwords, texts, windows)
    # The halves of five sentences are two and three.
    assert [r.source for r in found] == [(*a, sep, *b, eos)] * 2 + [(*c, sep, *d, sep, *e, eos)] * 3
    assert [r.end for r in found] == [sep, None, sep, sep, None]
    assert len(found[2].prefix) == 1


def test_a_part_of_sliding_windows_is_its_context_and_its_current_sentences(
    subwords: Subwords,
) -> None:
    eos = subwords.special.eos
    texts = ["a", "b", "c"]
    a, b, c = subwords.encode(texts)
    each = replace(Frame.stock(subwords.special), ends="each")
    found = requests_of_parts(subwords, texts, WindowConfig(context=1, stride=2), each)
    assert [r.source for r in found] == [(*a, eos, *b, eos)] * 2 + [(*b, eos, *c, eos)]
    assert [r.end for r in found] == [None] * 3


def test_a_translation_that_outgrows_its_part_loses_the_beginning_of_the_part(
    subwords: Subwords, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(subwords)
    engine.current = lambda request: "x y z x y z"  # type: ignore[method-assign]
    limit = 8 + len(subwords.encode(["x y z x y z"])[0])
    windows = WindowConfig(strategy="multires", max_length=limit)
    rules = RequestRules(windows, DecodeConfig(unit="part"), subwords.special, 200)
    wavefront = Wavefront(engine, subwords, rules)
    with caplog.at_level(logging.WARNING):
        (found,) = wavefront.translate([TranslationInput(Document("doc", ("a", "b", "c")))])
    assert len(found.document) == 3
    requests = [request for call in engine.calls for request in call]
    assert [engine.sentences(r.source[:-1]) for r in requests] == [
        ["a", "b", "c"],
        ["a", "b", "c"],
        ["b", "c"],
    ]
    assert all(len(r.prefix) <= limit for r in requests)
    assert "1 times the translation of a part grew longer than `windows.max_length`" in caplog.text


def test_a_part_needs_a_model_that_reads_what_was_said(special: SpecialIds) -> None:
    frame = replace(Frame.stock(special), target_context=False)
    with pytest.raises(ModelError, match=r"`decode.unit: part` needs.*Set `decode.unit: sentence`"):
        RequestRules(WindowConfig(), DecodeConfig(unit="part"), special, 100, frame)
    with pytest.raises(ConfigError, match=r"own or gold with `decode.unit: part`"):
        DecodeConfig(unit="part", target_context="none")
    with pytest.raises(ConfigError, match=r"gold with `decode.unit: part`"):
        DecodeConfig(unit="part", source_context="none")


def test_the_context_is_segmented_as_in_training(subwords: Subwords) -> None:
    class Spelling(FakeEngine):
        """Answer with single bytes, which no encoding of this text would use."""

        def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
            super().search(requests)
            (space,) = subwords.encode([" "])
            first = subwords.tokenizer.token_to_id("<0x00>")
            spelt = (space[0], *(first + byte for byte in b"the"))
            return [[Hypothesis(spelt, -1.0)] for _ in requests]

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


def test_a_translation_that_stands_is_never_asked_and_is_context(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    rules = RequestRules(
        WindowConfig(context=1, max_length=8), DecodeConfig(), subwords.special, 99
    )
    # The second is too long for the model, but nobody asks for it.
    document = Document("d", ("a", "the cat sat on the mat . again !" * 9, "c", "", "d"))
    given = TranslationInput(document, kept=(None, "x", None, "y"))
    (found,) = Wavefront(engine, subwords, rules).translate([given])
    assert found.document.sentences == ("A", "x", "C", "", "D")
    asked = [request for call in engine.calls for request in call]
    assert [engine.current(request) for request in asked] == ["a", "c", "d"]
    (after,) = Wavefront(engine, subwords, rules).translate(
        [TranslationInput(Document("d", ("a", "b")), kept=("x",))]
    )
    assert after.document.sentences == ("x", "B")
    assert engine.sentences(engine.calls[-1][0].prefix[1:]) == ["x", ""]


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
    assert translate(engine, documents, decode=DecodeConfig(max_tokens=max_tokens)) == expected
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


@settings(max_examples=40, deadline=None)
@given(documents=st.lists(words, max_size=12), slots=st.integers(1, 5))
def test_few_slots_change_the_order_of_work_and_nothing_else(
    subwords: Subwords, documents: list[list[str]], slots: int
) -> None:
    engine = FakeEngine(subwords)
    expected = [[sentence.upper() for sentence in document] for document in documents]
    assert translate(engine, documents, decode=DecodeConfig(open_documents=slots)) == expected
    assert all(len(call) <= slots for call in engine.calls)
    free = FakeEngine(subwords)
    translate(free, documents)
    asked = [sorted(r.source + r.prefix for c in e.calls for r in c) for e in (engine, free)]
    assert asked[0] == asked[1]


def test_the_longest_waiting_document_takes_the_next_free_slot(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    documents = [["a"], ["b", "c"], ["d", "e", "f", "g"], ["h", "i", "j"]]
    translate(engine, documents, decode=DecodeConfig(open_documents=2))
    waves = ["".join(sorted(engine.current(r) for r in call)) for call in engine.calls]
    assert waves == ["dh", "ei", "fj", "bg", "ac"]


def test_documents_are_read_as_they_are_needed(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    read: list[int] = []

    def inputs() -> Iterator[TranslationInput]:
        for number in range(100):
            read.append(number)
            yield TranslationInput(Document(str(number), ("a", "b")))

    rules = RequestRules(WindowConfig(), DecodeConfig(open_documents=2), subwords.special, 100)
    written = 0
    for _ in Wavefront(engine, subwords, rules).translate(inputs()):
        written += 1
        assert len(read) - written <= 8
    assert written == 100


def windows_of(engine: FakeEngine) -> list[tuple[list[str], list[str]]]:
    """Source and target sentences of every request; the last of the target is still empty."""
    return [
        (engine.sentences(r.source[:-1]), engine.sentences(r.prefix[1:])[:-1])
        for call in engine.calls
        for r in call
    ]


def test_target_context_can_be_the_reference_or_nothing(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    gold = DecodeConfig(target_context="gold")
    translate(engine, [["a", "b", "c"]], context=1, decode=gold, references=[["x", "y", "z"]])
    assert windows_of(engine) == [(["a"], []), (["a", "b"], ["x"]), (["b", "c"], ["y"])]
    engine = FakeEngine(subwords)
    translate(engine, [["a", "b"]], decode=DecodeConfig(target_context="none"))
    assert windows_of(engine) == [(["a"], []), (["a", "b"], [])]


def test_gold_context_needs_references(subwords: Subwords) -> None:
    decode = DecodeConfig(target_context="gold")
    with pytest.raises(DataError, match=r"doc1: `decode\.target_context: gold` needs a reference"):
        translate(FakeEngine(subwords), [["a"]], decode=decode)
    with pytest.raises(DataError, match="needs a reference"):
        translate(FakeEngine(subwords), [["a"]], decode=decode, references=[["x", "y"]])


def test_source_context_can_be_left_out(subwords: Subwords) -> None:
    engine = FakeEngine(subwords)
    translate(engine, [["a", "b"]], decode=DecodeConfig(source_context="none"))
    assert windows_of(engine) == [(["a"], []), (["b"], ["A"])]


def test_source_context_can_come_from_other_documents(subwords: Subwords) -> None:
    documents = [["a", "b", "c", "d"], ["x", "y", "z"], ["u", "v"]]
    found = []
    for seed in (1, 1, 2):
        engine = FakeEngine(subwords)
        decode = DecodeConfig(source_context="random", context_seed=seed)
        translate(engine, documents, context=2, decode=decode)
        found.append(sorted(windows_of(engine)))
        for source, target in windows_of(engine):
            own = next(set(d) for d in documents if source[-1] in d)
            # As many sentences as the right context would have, none of them of the document.
            assert len(source) - 1 == len(target)
            assert not own & {*source[:-1]}
            assert {t.lower() for t in target} <= own
    assert found[0] == found[1] != found[2]


def test_random_context_does_not_depend_on_what_else_is_open(subwords: Subwords) -> None:
    documents = [["a", "b", "c", "d"], ["x", "y", "z"], ["u", "v"]]
    found = []
    for slots in (1, 3):
        engine = FakeEngine(subwords)
        decode = DecodeConfig(source_context="random", open_documents=slots)
        translate(engine, documents, decode=decode)
        found.append(sorted(windows_of(engine)))
    assert found[0] == found[1]


def test_random_context_needs_another_document(subwords: Subwords) -> None:
    decode = DecodeConfig(source_context="random")
    with pytest.raises(DataError, match=r"needs at least two documents with sentences.*found 1"):
        translate(FakeEngine(subwords), [["a", "b"], [""]], decode=decode)


class WindowEngine(FakeEngine):
    """Translate every sentence of the window; leave the first out where `forgets` says so."""

    def __init__(self, subwords: Subwords, forgets: Callable[[list[str]], bool]) -> None:
        super().__init__(subwords)
        self.forgets = forgets

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        self.calls.append(list(requests))
        found = []
        for request in requests:
            sentences = self.sentences(request.source[:-1])
            said = sentences[1:] if self.forgets(sentences) else sentences
            encoded = self.subwords.encode([text.upper() for text in said])
            tokens = [i for ids in encoded for i in (*ids, self.subwords.special.sep)]
            found.append([Hypothesis(tuple(tokens[:-1]), -1.0)])
        return found


def test_a_whole_window_is_translated_and_its_last_sentence_kept(subwords: Subwords) -> None:
    engine = WindowEngine(subwords, lambda _: False)
    decode = DecodeConfig(unit="window")
    assert translate(engine, [["a", "", "b", "c"]], context=2, decode=decode) == [
        ["A", "", "B", "C"]
    ]
    requests = [request for call in engine.calls for request in call]
    assert all(request.prefix == (subwords.special.bos,) for request in requests)
    assert [request.may_separate for request in requests] == [False, True, True]
    lengths = [len(request.source) - 1 for request in requests]
    assert [r.max_new for r in requests] == [int(1.2 * length) + 10 for length in lengths]


def test_a_window_with_a_missing_sentence_is_asked_again_with_less_context(
    subwords: Subwords, caplog: pytest.LogCaptureFixture
) -> None:
    engine = WindowEngine(subwords, lambda sentences: len(sentences) > 2)
    with caplog.at_level(logging.WARNING):
        translated = translate(engine, [["a", "b", "c", "d"]], decode=DecodeConfig(unit="window"))
    assert translated == [["A", "B", "C", "D"]]
    asked = ["".join(source) for source, _ in windows_of(engine)]
    assert asked == ["a", "ab", "abc", "bc", "abcd", "bcd", "cd"]
    assert caplog.messages == [
        "3 outputs had another number of sentences than their window; these sentences were "
        "translated again with less context."
    ]


def test_context_that_did_not_fit_is_not_left_out_twice(subwords: Subwords) -> None:
    engine = WindowEngine(subwords, lambda sentences: len(sentences) > 2)
    (piece,) = subwords.encode(["a"])
    size = len(piece) + 1
    decode = DecodeConfig(unit="window")
    translate(engine, [["a", "a", "a", "a"]], max_length=3 * size, decode=decode)
    # The fourth sentence has room for two of its three, and is then asked for with one.
    assert [len(source) for source, _ in windows_of(engine)] == [1, 2, 3, 2, 3, 2]


def test_a_model_that_never_counts_right_still_translates(subwords: Subwords) -> None:
    engine = WindowEngine(subwords, lambda sentences: len(sentences) > 1)
    decode = DecodeConfig(unit="window")
    assert translate(engine, [["a", "b", "c"], ["d"]], decode=decode) == [["A", "B", "C"], ["D"]]


def test_alternatives_keep_their_scores(subwords: Subwords) -> None:
    class Two(FakeEngine):
        def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
            best = super().search(requests)
            return [[*one, Hypothesis(one[0].tokens * 2, -2.0)] for one in best]

    rules = RequestRules(WindowConfig(), DecodeConfig(n_best=2), subwords.special, 100)
    wavefront = Wavefront(Two(subwords), subwords, rules)
    (found,) = wavefront.translate([TranslationInput(Document("d", ("a", "")))])
    assert [[(one.text, one.score) for one in s] for s in found.alternatives] == [
        [("A", -1.0), ("A A", -2.0)],
        [("", 0.0)],
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
