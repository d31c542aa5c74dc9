"""Documents left to right, batched across documents.

Sentence i of a document needs the model's own translations of the sentences before it, so a
document is sequential; documents are independent, so each wave translates the next sentence of
every open document. When a document ends, the longest that waits takes its place. Few documents
are in memory at a time, and they are returned in the order of the input. `iada.decoding.requests`
says what is asked for each sentence.
"""

import logging
import sys
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sacrebleu.metrics.chrf import CHRF
from tqdm import tqdm

from iada.data.documents import Document
from iada.data.tokens.subwords import SubwordEncoding
from iada.decoding.engines.interface import Engine, Hypothesis, Request, batches
from iada.decoding.requests import (
    Alternative,
    ContextSample,
    DocumentState,
    RequestRules,
    check_lengths,
    last_sentence,
)
from iada.decoding.terms import Terms
from iada.errors import DataError

logger = logging.getLogger(__name__)

# Documents read ahead for each open one, so that there are long ones to start with.
_READ_AHEAD = 4


@dataclass(frozen=True)
class TranslationInput:
    """A document to translate."""

    document: Document
    reference: Document | None = None
    """Its reference translation, where the target context is taken from it."""
    kept: tuple[str | None, ...] = ()
    """Translations that stand as they are, such as those that a person has approved; None, or
    missing at the end, where there is none. They are the context of the sentences after them."""


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
    terms: Terms | None = None
    """Agreed translations to prefer, and how often they were met."""
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
                    self.sentences += document.skip_known()
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
        state = self._encode(0, TranslationInput(document, kept=tuple(kept)))
        self._open = [state]
        while not state.is_finished:
            number = len(state.texts)
            if not state.skip_known():
                # After a miscounted window the sentence is missing: the next wave tries again.
                self._wave()
            yield from state.texts[number:]
        self._report()

    def _encode(self, number: int, given: TranslationInput) -> DocumentState:
        document = given.document
        source = self.subwords.encode(document.sentences, "source")
        rules = self.rules
        longest = rules.windows.max_length
        check_lengths(document, source, longest, rules.window_frame, given.kept)
        context = None
        if self.sample is not None:
            drawn = self.sample.draw_context(number, document, self.rules.windows.context)
            context = [self.subwords.encode(texts, "source") for texts in drawn]
        reference = None
        if self.rules.decode.target_context == "gold":
            reference = self._encode_reference(given)
        known = {n: _to_one_line(text) for n, text in enumerate(given.kept) if text is not None}
        ids = self.subwords.encode([*known.values()], "target")
        kept = {n: (text, own) for (n, text), own in zip(known.items(), ids, strict=True)}
        return DocumentState(number, document, source, context, reference, kept)

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
            self.sentences += document.skip_known()
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
        if self.terms is not None:
            source = document.document.sentences[len(document.texts)]
            order = self.terms.order(source, [one.text for one in usable])
            usable = [usable[number] for number in order]
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
        if self.terms is not None:
            say = logger.info if self.terms.met == self.terms.asked else logger.warning
            say(
                "%d of the %d terms that the text has are in its translation; the others are in "
                "none of the %d best.",
                self.terms.met,
                self.terms.asked,
                decode.n_best,
            )
        if self.shortened:
            logger.warning(
                "%d times the translation of a part grew longer than `windows.max_length` (%d "
                "tokens); its first sentences were left out of the window of those after them.",
                self.shortened,
                self.rules.windows.max_length,
            )


def _to_translation(document: DocumentState) -> DocumentTranslation:
    return DocumentTranslation(
        Document(document.document.name, tuple(document.texts)),
        tuple(tuple(found) for found in document.alternatives),
    )


def _to_one_line(text: str) -> str:
    """Replace the characters that no line may hold; byte pieces can spell them."""
    return text.translate({ord(symbol): " " for symbol in "\n\r\0"})


def expected_chrf(candidates: Sequence[str]) -> list[float]:
    """Return the mean chrF of each candidate against the others, which all count alike."""
    chrf = CHRF()
    texts = list(candidates)
    scores = []
    for number, text in enumerate(texts):
        others = texts[:number] + texts[number + 1 :]
        found = [chrf.sentence_score(text, [other]).score for other in others]
        scores.append(sum(found) / len(found) if found else 0.0)
    return scores


def by_agreement(candidates: Sequence[str]) -> list[int]:
    """Return the numbers of the candidates, the one that agrees most with the others first.

    Minimum Bayes risk (Kumar and Byrne, 2004): the most probable translation is often an outlier.
    Ties and single candidates leave the order of the search as it is.
    """
    scores = expected_chrf(candidates)
    return sorted(range(len(scores)), key=lambda number: -scores[number])
