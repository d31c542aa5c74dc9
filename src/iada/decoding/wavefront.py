"""Documents left to right, batched across documents.

Sentence i of a document needs the model's own translations of the sentences before it, so a
document is sequential; documents are independent, so each wave translates the next sentence of
every open document. When a document ends, the longest that waits takes its place. Few documents
are in memory at a time, and they leave in the order in which they came.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from iada.data.documents import Document
from iada.data.subwords import Subwords
from iada.decoding.progress import Alternative, OpenDocument, RequestRules
from iada.decoding.random_context import ContextSample
from iada.decoding.requests import Engine, Hypothesis, Request, batches
from iada.errors import DataError

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
