"""Documents left to right, batched across documents.

Sentence i of a document needs the model's own translations of the sentences before it, so a
document is sequential; documents are independent, so each wave translates the next sentence of
every open document. When a document ends, the longest that waits takes its place. Few documents
are in memory at a time, and they are returned in the order of the input.

    source   c1 <sep> c2 <sep> c3 <sep> x </s>
    prefix   <s> c1 <sep> c2 <sep> c3 <sep>

A window that is too long loses its oldest context, on both sides together. With `unit: part` the
source is a whole part of the document, as training has cut it, and its translation is written one
sentence after the other, each ended by `<sep>`, the last by `</s>`: the number of sentences is
right by construction. With `unit: window` the prefix is `<s>` alone and the output holds a
translation of every sentence of the window; an output with another number of sentences is not used,
and the sentence is translated again with less context.

With `source_context: random` the source context comes from other documents, to measure what a model
loses without the right one. Sentences are drawn from a sample of the input, and each draw depends
on the seed, the document, the sentence and the position alone, not on the documents that happen to
be open.
"""

import logging
import random
import sys
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import SpecialIds, SubwordEncoding
from iada.data.windows.frame import Frame
from iada.data.windows.prompt import Prompt
from iada.data.windows.spans import part_of
from iada.decoding.engines.interface import Engine, Hypothesis, Request, batches
from iada.decoding.mbr import by_agreement
from iada.errors import DataError, ModelError

_SAMPLE = 10_000


@dataclass(frozen=True)
class ContextSample:
    """Sentences of an input, each with the number of its document."""

    sentences: tuple[tuple[int, str], ...]
    seed: int

    def draw_context(self, number: int, document: Document, size: int) -> list[list[str]]:
        """Draw context for each sentence of a document, at most `size` sentences each."""
        others = [text for owner, text in self.sentences if owner != number]
        contexts = []
        for place in range(len(document)):
            draw = random.Random(f"{self.seed} {number} {place}")
            contexts.append([draw.choice(others) for _ in range(min(place, size))])
        return contexts


def sample_context(documents: Iterable[Document], seed: int) -> ContextSample:
    """Draw a bounded sample of the sentences of all documents, each with the same probability."""
    draw = random.Random(f"{seed} sample")
    kept: list[tuple[int, str]] = []
    seen = 0
    owners = set()
    for number, document in enumerate(documents):
        for sentence in filter(str.strip, document.sentences):
            seen += 1
            owners.add(number)
            if len(kept) < _SAMPLE:
                kept.append((number, sentence))
            elif (place := draw.randrange(seen)) < _SAMPLE:
                kept[place] = (number, sentence)
    if len(owners) < 2:
        raise DataError(
            "`decode.source_context: random` needs at least two documents with sentences, but "
            f"found {len(owners)}."
        )
    return ContextSample(tuple(kept), seed)


@dataclass(frozen=True)
class RequestRules:
    """How windows become requests."""

    windows: WindowConfig
    decode: DecodeConfig
    special: SpecialIds
    max_positions: int
    frame: Frame | None = None
    """What the model reads around and between sentences; None is Doc2Doc's."""

    def __post_init__(self) -> None:
        frame = self.window_frame
        unit, separates = self.decode.unit, frame.separator != frame.target_end
        if isinstance(frame, Prompt):
            suits = False
        elif unit == "window":
            suits = frame.target_context and frame.ends == "once" and separates
        else:
            suits = frame.target_context and (frame.ends == "each" or separates)
        if unit != "sentence" and not suits:
            raise ModelError(
                f"`decode.unit: {unit}` needs a model that says where a sentence of its window "
                "ends, but this one translates sentence by sentence. Set `decode.unit: sentence`."
            )

    @property
    def window_frame(self) -> Frame:
        """The frame of every request."""
        return Frame.stock(self.special) if self.frame is None else self.frame


@dataclass(frozen=True)
class Alternative:
    """One translation of a sentence."""

    text: str
    score: float


@dataclass
class DocumentState:
    """A document, and what has been translated of it."""

    number: int
    document: Document
    source: list[list[int]]
    """Tokens of each sentence."""
    context: list[list[list[int]]] | None = None
    """Source context of each sentence if it is not the document's own, as many sentences."""
    reference: list[list[int]] | None = None
    """Target context that is used in place of the model's own translations."""
    target: list[list[int]] = field(default_factory=list)
    """Tokens of each translation so far."""
    texts: list[str] = field(default_factory=list)
    """Each translation so far."""
    alternatives: list[list[Alternative]] = field(default_factory=list)
    """Best translations of each sentence, best first."""
    dropped_context: int = 0
    """Number of context sentences that the next request is made without."""
    part: tuple[int, int] = (0, 0)
    """First sentence of the part that is translated as a whole, and the one after its last."""

    @property
    def is_finished(self) -> bool:
        """Whether every sentence has its translation."""
        return len(self.texts) == len(self.source)

    def append(self, text: str, tokens: list[int], alternatives: list[Alternative]) -> None:
        """Add the translation of the next sentence."""
        self.texts.append(text)
        self.target.append(tokens)
        self.alternatives.append(alternatives)
        self.dropped_context = 0

    def skip_empty(self) -> int:
        """Give the empty sentences that come next empty translations; return their number."""
        before = len(self.texts)
        while not self.is_finished and not self.source[len(self.texts)]:
            self.append("", [], [Alternative("", 0.0)])
        return len(self.texts) - before

    def next_request(self, rules: RequestRules) -> Request:
        """Return the request for the next sentence, with as much context as fits."""
        number = len(self.texts)
        if rules.decode.unit != "part":
            first = max(0, number - rules.window_frame.context(rules.windows))
            self.part = first + self.dropped_context, number + 1
        elif number >= self.part[1]:
            lengths = [len(ids) for ids in self.source]
            self.part = part_of(lengths, number, rules.windows, rules.window_frame)
        first, stop = self.part
        while True:
            request = self._request(first, stop, rules)
            longest = max(len(request.source), len(request.prefix))
            fits = len(request.prefix) + request.max_new < rules.max_positions
            if (fits and longest <= rules.windows.max_length) or first >= number:
                self.part = first, stop
                return request
            first += 1
            self.dropped_context += 1

    def _request(self, first: int, stop: int, rules: RequestRules) -> Request:
        decode, frame = rules.decode, rules.window_frame
        number = len(self.texts)
        before = self._source_context(first, decode)
        # Where every sentence ends alike, none of them can tell whether it is the last.
        goes_on = frame.ends == "once" and number + 1 < stop
        target: Sequence[Sequence[int]] = []
        if decode.unit != "window" and decode.target_context != "none" and frame.target_context:
            target = (self.reference or self.target)[first:number]
        source, prefix = self._window(before, target, stop, rules)
        length = len(source) - 1 if decode.unit == "window" else len(self.source[number])
        max_new = int(decode.max_length_ratio * length) + decode.max_length_offset
        return Request(
            source=tuple(source),
            prefix=tuple(prefix),
            max_new=min(max_new, rules.max_positions - 2),
            may_separate=decode.unit == "window" and bool(before),
            end=frame.separator if goes_on else None,
            inputs={"first_sentence": len(before) - len(target)},
        )

    def _source_context(self, first: int, decode: DecodeConfig) -> list[list[int]]:
        number = len(self.texts)
        if decode.source_context == "none" or first >= number:
            return []
        own = self.source[first:number]
        return own if self.context is None else self.context[number][-len(own) :]

    def _window(
        self,
        before: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        stop: int,
        rules: RequestRules,
    ) -> tuple[list[int], list[int]]:
        """Write the source, context, part and what follows if it fits, and the prefix."""
        number, frame = len(self.texts), rules.window_frame
        after = 0 if rules.decode.source_context == "none" else frame.after
        while True:
            source, prefix = frame.request([*before, *self.source[number : stop + after]], target)
            if len(source) <= rules.windows.max_length or not after:
                return source, prefix
            after -= 1


def last_sentence(hypothesis: Hypothesis, request: Request, sep: int) -> tuple[int, ...] | None:
    """Return the tokens of the sentence itself; None if the number of sentences is wrong."""
    if not request.may_separate:
        return hypothesis.tokens
    if hypothesis.tokens.count(sep) != request.source.count(sep):
        return None
    start = len(hypothesis.tokens) - 1 - hypothesis.tokens[::-1].index(sep)
    return hypothesis.tokens[start + 1 :]


logger = logging.getLogger(__name__)

# Documents read ahead for each open one, so that there are long ones to start with.
_READ_AHEAD = 4


@dataclass(frozen=True)
class TranslationInput:
    """A document to translate."""

    document: Document
    reference: Document | None = None
    """Its reference translation, where the target context is taken from it."""


@dataclass(frozen=True)
class DocumentTranslation:
    """A document's translation."""

    document: Document
    alternatives: tuple[tuple[Alternative, ...], ...]
    """Best translations of each sentence, best first."""


@dataclass
class Wavefront:
    """Translates a stream of documents."""

    engine: Engine
    subwords: SubwordEncoding
    rules: RequestRules
    sample: ContextSample | None = None
    """Where source context is drawn from, if it is not the document's own."""
    shows_progress: bool = True
    """Whether there is a progress bar on a terminal."""
    sentences: int = 0
    """Number of sentences translated so far."""
    truncated: int = 0
    """Number of translations that reached the length limit."""
    miscounted: int = 0
    """Number of outputs with another number of sentences than their window."""
    shortened: int = 0
    """Number of times that a part lost its first sentences because its translation was long."""
    _waiting: list[DocumentState] = field(default_factory=list)
    _open: list[DocumentState] = field(default_factory=list)

    def translate(
        self,
        inputs: Iterable[TranslationInput],
        total: int | None = None,
        numbers: Container[int] | None = None,
    ) -> Iterator[DocumentTranslation]:
        """Yield the translations of documents, in their order.

        Args:
            inputs: the documents; they are read as they are needed.
            total: number of sentences, for the progress bar.
            numbers: which of them to translate, counted from 0; all by default.
        """
        decode = self.rules.decode
        remaining = ((n, item) for n, item in enumerate(inputs) if numbers is None or n in numbers)
        finished: dict[int, DocumentState] = {}
        unwritten: deque[int] = deque()
        hidden = not self.shows_progress or not sys.stderr.isatty()
        with tqdm(total=total, desc="translate", unit="sentence", disable=hidden) as bar:
            while True:
                while len(unwritten) < _READ_AHEAD * decode.open_documents:
                    item = next(remaining, None)
                    if item is None:
                        break
                    self._waiting.append(self._encode(*item))
                    unwritten.append(item[0])
                self._open_longest()
                if not self._open:
                    break
                before = self.sentences
                self._wave()
                for document in self._open:
                    self.sentences += document.skip_empty()
                finished |= {d.number: d for d in self._open if d.is_finished}
                self._open = [d for d in self._open if not d.is_finished]
                bar.update(self.sentences - before)
                while unwritten and unwritten[0] in finished:
                    yield _to_translation(finished.pop(unwritten.popleft()))
        self._report()

    def follow(self, document: Document, kept: Sequence[str | None]) -> Iterator[str]:
        """Yield the translation of each sentence of one document as soon as it is found.

        Args:
            document: what to translate.
            kept: translations that stand as they are; None where there is none yet.
        """
        state = self._encode(0, TranslationInput(document))
        self._open = [state]
        while not state.is_finished:
            number = len(state.texts)
            known = kept[number] if number < len(kept) else None
            if known is not None and state.source[number]:
                text = _to_one_line(known)
                (ids,) = self.subwords.encode([text], "target")
                state.append(text, ids, [Alternative(text, 0.0)])
            elif not state.skip_empty():
                # After a miscounted window the sentence is missing: the next wave tries again.
                self._wave()
            yield from state.texts[number:]
        self._report()

    def _encode(self, number: int, given: TranslationInput) -> DocumentState:
        document = given.document
        source = self.subwords.encode(document.sentences, "source")
        rules = self.rules
        check_lengths(document, source, rules.windows.max_length, rules.window_frame)
        context = None
        if self.sample is not None:
            drawn = self.sample.draw_context(number, document, self.rules.windows.context)
            context = [self.subwords.encode(texts, "source") for texts in drawn]
        reference = None
        if self.rules.decode.target_context == "gold":
            reference = self._encode_reference(given)
        return DocumentState(number, document, source, context, reference)

    def _encode_reference(self, given: TranslationInput) -> list[list[int]]:
        found = given.reference
        if found is None or len(found) != len(given.document):
            raise DataError(
                f"{given.document.name}: `decode.target_context: gold` needs a reference "
                "translation of every sentence. Give references, or choose `own` or `none`."
            )
        return self.subwords.encode(found.sentences, "target")

    def _open_longest(self) -> None:
        """Open as many waiting documents as may be open, the longest first."""
        free = self.rules.decode.open_documents - len(self._open)
        self._waiting.sort(key=lambda d: (-len(d.source), d.number))
        for document in self._waiting[:free]:
            self.sentences += document.skip_empty()
            self._open.append(document)
        self._waiting = self._waiting[free:]

    def _wave(self) -> None:
        """Translate the next sentence of every open document."""
        active = [document for document in self._open if not document.is_finished]
        requests = [document.next_request(self.rules) for document in active]
        if self.rules.decode.unit == "part":
            self.shortened += sum(document.dropped_context > 0 for document in active)
        for batch in batches(requests, self.rules.decode.max_tokens):
            found = self.engine.search([requests[i] for i in batch])
            for i, hypotheses in zip(batch, found, strict=True):
                self._accept(active[i], requests[i], hypotheses)

    def _accept(
        self, document: DocumentState, request: Request, hypotheses: Sequence[Hypothesis]
    ) -> None:
        """Add the best hypothesis to a document, or let it try again with less context."""
        usable = []
        for hypothesis in hypotheses:
            tokens = last_sentence(hypothesis, request, self.rules.special.sep)
            if tokens is not None:
                text = _to_one_line(self.subwords.decode(tokens))
                usable.append(Alternative(text, hypothesis.score))
            elif hypothesis is hypotheses[0]:
                self.miscounted += 1
                document.dropped_context += 1
                return
        if self.rules.decode.mbr:
            usable = [usable[number] for number in by_agreement([one.text for one in usable])]
        text = usable[0].text
        # Context is segmented as in training, whatever pieces the search chose.
        (ids,) = self.subwords.encode([text], "target")
        self.truncated += len(hypotheses[0].tokens) >= request.max_new
        self.sentences += 1
        document.append(text, ids, usable)

    def _report(self) -> None:
        decode = self.rules.decode
        if self.truncated:
            logger.warning(
                "%d of %d translations reached the length limit (%s times the source plus %d "
                "tokens).",
                self.truncated,
                self.sentences,
                decode.max_length_ratio,
                decode.max_length_offset,
            )
        if self.miscounted:
            logger.warning(
                "%d outputs had another number of sentences than their window; these sentences "
                "were translated again with less context.",
                self.miscounted,
            )
        if self.shortened:
            logger.warning(
                "%d times the translation of a part grew longer than `windows.max_length` (%d "
                "tokens); its first sentences were left out of the window of those after them.",
                self.shortened,
                self.rules.windows.max_length,
            )


def check_lengths(
    document: Document, source: Sequence[Sequence[int]], longest: int, frame: Frame
) -> None:
    """Refuse a document with a sentence that is too long for the model."""
    for number, ids in enumerate(source, start=1):
        if (needed := frame.sentence_length(ids)) > longest:
            raise DataError(
                f"{document.name}: sentence {number} needs {needed} tokens but the "
                f"model was trained for at most {longest}. Split the sentence, or let it be "
                "translated in parts with `decode.on_long: split` (`--on_long split`)."
            )


def _to_translation(document: DocumentState) -> DocumentTranslation:
    return DocumentTranslation(
        Document(document.document.name, tuple(document.texts)),
        tuple(tuple(found) for found in document.alternatives),
    )


def _to_one_line(text: str) -> str:
    """Replace the characters that no line may hold; byte pieces can spell them."""
    return text.translate({ord(symbol): " " for symbol in "\n\r\0"})
