"""What is asked of an engine for the next sentence of a document.

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

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.frame import Frame
from iada.data.windows.prompt import Prompt
from iada.data.windows.spans import part_of
from iada.decoding.engines.interface import Hypothesis, Request
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
    kept: dict[int, tuple[str, list[int]]] = field(default_factory=dict)
    """Text and tokens of the translations that stand as they are, by the number of the sentence."""
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

    def skip_known(self) -> int:
        """Add the translations that come next and need no search; return their number.

        An empty sentence has an empty translation; others stand as they are.
        """
        before = len(self.texts)
        while not self.is_finished:
            number = len(self.texts)
            if self.source[number] and number not in self.kept:
                break
            text, tokens = self.kept[number] if self.source[number] else ("", [])
            self.append(text, tokens, [Alternative(text, 0.0)])
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


def check_lengths(
    document: Document,
    source: Sequence[Sequence[int]],
    longest: int,
    frame: Frame,
    kept: Sequence[str | None] = (),
) -> None:
    """Refuse a document with a sentence that is too long for the model and needs translation."""
    for number, (ids, known) in enumerate(zip_longest(source, kept[: len(source)]), start=1):
        if known is None and (needed := frame.sentence_length(ids)) > longest:
            raise DataError(
                f"{document.name}: sentence {number} needs {needed} tokens but the "
                f"model was trained for at most {longest}. Split the sentence, or let it be "
                "translated in parts with `decode.on_long: split` (`--on_long split`)."
            )
