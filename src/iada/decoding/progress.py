"""One document on its way, and what is asked for its next sentence.

    source   c1 <sep> c2 <sep> c3 <sep> x </s>
    prefix   <s> c1 <sep> c2 <sep> c3 <sep>

A window that is too long loses its oldest context, on both sides together. With `unit: window` the
prefix is `<s>` alone and the answer holds a translation of every sentence of the window; an answer
with another number of sentences is not used, and the same sentence is asked for again with less
context.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.subwords import SpecialIds
from iada.decoding.requests import Hypothesis, Request


@dataclass(frozen=True)
class RequestRules:
    """How windows become requests."""

    windows: WindowConfig
    decode: DecodeConfig
    special: SpecialIds
    max_positions: int


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
        first = max(0, len(self.texts) - rules.windows.context) + self.left_out
        while True:
            request = self._request(first, rules)
            longest = max(len(request.source), len(request.prefix))
            fits = len(request.prefix) + request.max_new < rules.max_positions
            if (fits and longest <= rules.windows.max_length) or first >= len(self.texts):
                return request
            first += 1
            self.left_out += 1

    def _request(self, first: int, rules: RequestRules) -> Request:
        decode, special = rules.decode, rules.special
        number = len(self.texts)
        before = self._source_context(first, decode)
        source = _joined([*before, self.source[number]], special.sep)
        source[-1] = special.eos
        asked = len(source) - 1 if decode.unit == "window" else len(self.source[number])
        max_new = int(decode.max_length_ratio * asked) + decode.max_length_offset
        target: Sequence[Sequence[int]] = []
        if decode.unit == "sentence" and decode.target_context != "none":
            target = (self.reference or self.said)[first:number]
        return Request(
            source=tuple(source),
            prefix=(special.bos, *_joined(target, special.sep)),
            max_new=min(max_new, rules.max_positions - 2),
            may_separate=decode.unit == "window" and bool(before),
        )

    def _source_context(self, first: int, decode: DecodeConfig) -> list[list[int]]:
        number = len(self.texts)
        if decode.source_context == "none" or first >= number:
            return []
        own = self.source[first:number]
        return own if self.context is None else self.context[number][-len(own) :]

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


def _joined(sentences: Sequence[Sequence[int]], sep: int) -> list[int]:
    return [token for sentence in sentences for token in (*sentence, sep)]
