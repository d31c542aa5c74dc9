"""Source context from other documents, to see what a model loses without the right one.

Sentences are drawn from a sample of the input that is the same whatever the order and number of
documents in flight: each draw depends on the seed, the document, the sentence and the place alone.

One document on its way, and what is asked for its next sentence.

    source   c1 <sep> c2 <sep> c3 <sep> x </s>
    prefix   <s> c1 <sep> c2 <sep> c3 <sep>

A window that is too long loses its oldest context, on both sides together. With `unit: window` the
prefix is `<s>` alone and the answer holds a translation of every sentence of the window; an answer
with another number of sentences is not used, and the same sentence is asked for again with less
context.

Documents left to right, batched across documents.

Sentence i of a document needs the model's own translations of the sentences before it, so a
document is sequential; documents are independent, so each wave translates the next sentence of
every open document. When a document ends, the longest that waits takes its place. Few documents
are in memory at a time, and they leave in the order in which they came.
"""

import logging
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.data.windows.frame import Frame
from iada.decoding.engines.interface import Engine, Hypothesis, Request, batches
from iada.errors import DataError, ModelError

_SAMPLE = 10_000


@dataclass(frozen=True)
class ContextSample:
    """Sentences of an input, each with the number of its document."""

    sentences: tuple[tuple[int, str], ...]
    seed: int

    def context_of(self, number: int, document: Document, size: int) -> list[list[str]]:
        """Return other context for each sentence of a document, at most `size` sentences each."""
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
        if self.decode.unit == "window" and (frame.ends == "each" or not frame.target_context):
            raise ModelError(
                "`decode.unit: window` needs a model that says `<sep>` between the sentences of a "
                "window, but this one translates sentence by sentence. Set `decode.unit: sentence`."
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
class OpenDocument:
    """What is to be said of a document and what was said."""

    number: int
    document: Document
    source: list[list[int]]
    """Tokens of each sentence."""
    context: list[list[list[int]]] | None = None
    """Other source context of each sentence, as many sentences as its own; None is its own."""
    reference: list[list[int]] | None = None
    """Target context that is used in place of what was said."""
    said: list[list[int]] = field(default_factory=list)
    """Tokens of each translation."""
    texts: list[str] = field(default_factory=list)
    alternatives: list[list[Alternative]] = field(default_factory=list)
    """Best translations of each sentence, if more than one is wanted."""
    left_out: int = 0
    """Context sentences that the next request does without."""

    @property
    def is_finished(self) -> bool:
        """Whether every sentence has its translation."""
        return len(self.texts) == len(self.source)

    def say(self, text: str, tokens: list[int], alternatives: list[Alternative]) -> None:
        """Take the translation of the next sentence."""
        self.texts.append(text)
        self.said.append(tokens)
        self.alternatives.append(alternatives)
        self.left_out = 0

    def skip_empty(self) -> int:
        """Say nothing for the empty sentences that come next; return their number."""
        before = len(self.texts)
        while not self.is_finished and not self.source[len(self.texts)]:
            self.say("", [], [Alternative("", 0.0)])
        return len(self.texts) - before

    def next_request(self, rules: RequestRules) -> Request:
        """Ask for the next sentence."""
        context = rules.window_frame.context(rules.windows)
        first = max(0, len(self.texts) - context) + self.left_out
        while True:
            request = self._request(first, rules)
            longest = max(len(request.source), len(request.prefix))
            fits = len(request.prefix) + request.max_new < rules.max_positions
            if (fits and longest <= rules.windows.max_length) or first >= len(self.texts):
                return request
            first += 1
            self.left_out += 1

    def _request(self, first: int, rules: RequestRules) -> Request:
        decode, frame = rules.decode, rules.window_frame
        number = len(self.texts)
        before = self._source_context(first, decode)
        source = self._source(before, rules)
        asked = len(source) - 1 if decode.unit == "window" else len(self.source[number])
        max_new = int(decode.max_length_ratio * asked) + decode.max_length_offset
        target: Sequence[Sequence[int]] = []
        if decode.unit == "sentence" and decode.target_context != "none" and frame.target_context:
            target = (self.reference or self.said)[first:number]
        return Request(
            source=tuple(source),
            prefix=tuple(frame.prefix(target)),
            max_new=min(max_new, rules.max_positions - 2),
            may_separate=decode.unit == "window" and bool(before),
        )

    def _source_context(self, first: int, decode: DecodeConfig) -> list[list[int]]:
        number = len(self.texts)
        if decode.source_context == "none" or first >= number:
            return []
        own = self.source[first:number]
        return own if self.context is None else self.context[number][-len(own) :]

    def _source(self, before: Sequence[Sequence[int]], rules: RequestRules) -> list[int]:
        """Write the source: context, the sentence, and what follows as far as there is room."""
        number, frame = len(self.texts), rules.window_frame
        after = 0 if rules.decode.source_context == "none" else frame.after
        while True:
            following = self.source[number + 1 : number + 1 + after]
            source = frame.source([*before, self.source[number], *following])
            if len(source) <= rules.windows.max_length or not after:
                return source
            after -= 1

    def answer(self, hypothesis: Hypothesis, request: Request, sep: int) -> tuple[int, ...] | None:
        """Return the tokens of the sentence itself; None if the answer cannot be used.

        After None, the next request has one context sentence less.
        """
        if not request.may_separate:
            return hypothesis.tokens
        if hypothesis.tokens.count(sep) != request.source.count(sep):
            self.left_out += 1
            return None
        start = len(hypothesis.tokens) - 1 - hypothesis.tokens[::-1].index(sep)
        return hypothesis.tokens[start + 1 :]


logger = logging.getLogger(__name__)

# Documents read ahead for each open one, so that there are long ones to begin with.
_READ_AHEAD = 4


@dataclass(frozen=True)
class Task:
    """A document to translate."""

    document: Document
    reference: Document | None = None
    """Its reference translation, where the target context is taken from it."""


@dataclass(frozen=True)
class Translated:
    """A document's translation."""

    document: Document
    alternatives: tuple[tuple[Alternative, ...], ...]
    """Best translations of each sentence, best first."""


@dataclass
class Wavefront:
    """Translates a stream of documents."""

    engine: Engine
    subwords: Subwords
    rules: RequestRules
    sample: ContextSample | None = None
    """Where source context is drawn from, if it is not the document's own."""
    sentences: int = 0
    """Number of sentences translated so far."""
    cut_short: int = 0
    """Number of translations that reached the length limit."""
    miscounted: int = 0
    """Number of answers with another number of sentences than their window."""
    _waiting: list[OpenDocument] = field(default_factory=list)
    _open: list[OpenDocument] = field(default_factory=list)

    def translate(self, tasks: Iterable[Task], total: int | None = None) -> Iterator[Translated]:
        """Yield the translations of documents, in their order.

        Args:
            tasks: the documents; they are read as they are needed.
            total: number of sentences, for the progress bar.
        """
        decode = self.rules.decode
        remaining = enumerate(tasks)
        finished: dict[int, OpenDocument] = {}
        read = written = 0
        bar = tqdm(total=total, desc="translate", unit="sentence", disable=not sys.stderr.isatty())
        with bar:
            while True:
                while read - written < _READ_AHEAD * decode.open_documents:
                    item = next(remaining, None)
                    if item is None:
                        break
                    self._waiting.append(self._begin(*item))
                    read += 1
                self._fill_slots()
                if not self._open:
                    break
                before = self.sentences
                self._wave()
                for document in self._open:
                    self.sentences += document.skip_empty()
                finished |= {d.number: d for d in self._open if d.is_finished}
                self._open = [d for d in self._open if not d.is_finished]
                bar.update(self.sentences - before)
                while written in finished:
                    yield _translated(finished.pop(written))
                    written += 1
        self._report()

    def _begin(self, number: int, task: Task) -> OpenDocument:
        document = task.document
        source = self.subwords.encode(document.sentences, "source")
        check_lengths(document, source, self.rules.windows.max_length)
        context = None
        if self.sample is not None:
            drawn = self.sample.context_of(number, document, self.rules.windows.context)
            context = [self.subwords.encode(texts, "source") for texts in drawn]
        reference = None
        if self.rules.decode.target_context == "gold":
            reference = self._reference(task)
        return OpenDocument(number, document, source, context, reference)

    def _reference(self, task: Task) -> list[list[int]]:
        found = task.reference
        if found is None or len(found) != len(task.document):
            raise DataError(
                f"{task.document.name}: `decode.target_context: gold` needs a reference "
                "translation of every sentence. Give references, or choose `own` or `none`."
            )
        return self.subwords.encode(found.sentences, "target")

    def _fill_slots(self) -> None:
        """Open waiting documents, the longest first."""
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
        for batch in batches(requests, self.rules.decode.max_tokens):
            found = self.engine.search([requests[i] for i in batch])
            for i, hypotheses in zip(batch, found, strict=True):
                self._take(active[i], requests[i], hypotheses)

    def _take(
        self, document: OpenDocument, request: Request, hypotheses: Sequence[Hypothesis]
    ) -> None:
        """Give a document the answer to its request."""
        sep = self.rules.special.sep
        usable = []
        for hypothesis in hypotheses:
            left_out = document.left_out
            tokens = document.answer(hypothesis, request, sep)
            if tokens is None:
                if hypothesis is hypotheses[0]:
                    self.miscounted += 1
                    return
                document.left_out = left_out
            else:
                usable.append(
                    Alternative(_one_line(self.subwords.decode(tokens)), hypothesis.score)
                )
        text = usable[0].text
        # Context is segmented as in training, whatever pieces the search chose.
        (ids,) = self.subwords.encode([text], "target")
        self.cut_short += len(hypotheses[0].tokens) >= request.max_new
        self.sentences += 1
        document.say(text, ids, usable)

    def _report(self) -> None:
        decode = self.rules.decode
        if self.cut_short:
            logger.warning(
                "%d of %d translations reached the length limit (%s times the source plus %d "
                "tokens).",
                self.cut_short,
                self.sentences,
                decode.max_length_ratio,
                decode.max_length_offset,
            )
        if self.miscounted:
            logger.warning(
                "%d answers had another number of sentences than their window; these sentences "
                "were translated again with less context.",
                self.miscounted,
            )


def check_lengths(document: Document, source: Sequence[Sequence[int]], longest: int) -> None:
    """Refuse a document with a sentence that is too long for the model."""
    for number, ids in enumerate(source, start=1):
        if len(ids) + 1 > longest:
            raise DataError(
                f"{document.name}: sentence {number} needs {len(ids) + 1} tokens but the "
                f"model was trained for at most {longest}. Split the sentence."
            )


def _translated(document: OpenDocument) -> Translated:
    return Translated(
        Document(document.document.name, tuple(document.texts)),
        tuple(tuple(found) for found in document.alternatives),
    )


def _one_line(text: str) -> str:
    """Return the text as a line can hold it: byte pieces can spell what no line may hold."""
    return text.translate({ord(symbol): " " for symbol in "\n\r\0"})
