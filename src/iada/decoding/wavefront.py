"""Documents left to right, batched across documents.

Sentence i of a document needs the model's own translations of the sentences before it, so a
document is sequential; documents are independent, so each wave translates the next sentence of
every unfinished document. A sentence's translation depends on its own document only, whatever
else is in the batch.
"""

import logging
import sys
from collections.abc import Sequence

from tqdm import tqdm

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.subwords import Subwords
from iada.decoding.requests import Engine, Request, batches
from iada.errors import DataError

logger = logging.getLogger(__name__)


class _Progress:
    """One document on its way: what is to be said and what was said."""

    def __init__(self, document: Document, encoded: list[list[int]]) -> None:
        self.document = document
        self.source = encoded
        self.target: list[list[int]] = []
        self.texts: list[str] = []

    def say(self, text: str, ids: list[int]) -> None:
        self.texts.append(text)
        self.target.append(ids)

    @property
    def finished(self) -> bool:
        return len(self.texts) == len(self.source)


def translate_documents(
    documents: Sequence[Document],
    engine: Engine,
    subwords: Subwords,
    *,
    windows: WindowConfig,
    decode: DecodeConfig,
    max_positions: int,
) -> list[Document]:
    """Translate documents; every sentence has one translation, and an empty one an empty one."""
    progress = [_Progress(d, subwords.encode(d.sentences, "source")) for d in documents]
    for document in progress:
        _check_lengths(document, windows)
    total = sum(len(document) for document in documents)
    cut_short = 0
    with tqdm(
        total=total, desc="translate", unit="sentence", disable=not sys.stderr.isatty()
    ) as bar:
        while True:
            for document in progress:
                bar.update(_skip_empty(document))
            active = [document for document in progress if not document.finished]
            if not active:
                break
            requests = [
                _request(document, subwords, windows, decode, max_positions) for document in active
            ]
            for batch in batches(requests, decode.max_tokens):
                outputs = engine.translate([requests[i] for i in batch])
                texts = [_one_line(subwords.decode(tokens)) for tokens in outputs]
                # Context is segmented as in training, whatever pieces the search chose.
                for i, tokens, text, ids in zip(
                    batch, outputs, texts, subwords.encode(texts, "target"), strict=True
                ):
                    cut_short += len(tokens) >= requests[i].max_new
                    active[i].say(text, ids)
                bar.update(len(batch))
    if cut_short:
        logger.warning(
            "%d of %d translations reached the length limit (%s times the source plus %d tokens).",
            cut_short,
            total,
            decode.max_length_ratio,
            decode.max_length_offset,
        )
    return [Document(p.document.name, tuple(p.texts)) for p in progress]


def _check_lengths(document: _Progress, windows: WindowConfig) -> None:
    """Refuse a sentence that is too long before anything is translated."""
    for number, ids in enumerate(document.source, start=1):
        if len(ids) + 1 > windows.max_length:
            raise DataError(
                f"{document.document.name}: sentence {number} needs {len(ids) + 1} tokens but the "
                f"model was trained for at most {windows.max_length}. Split the sentence."
            )


def _one_line(text: str) -> str:
    """Return the text as `read_lines` allows it: byte pieces can spell what no line may hold."""
    return text.translate({ord(symbol): " " for symbol in "\n\r\0"})


def _skip_empty(document: _Progress) -> int:
    """Say nothing for the empty sentences that come next; return their number."""
    before = len(document.texts)
    while not document.finished and not document.source[len(document.texts)]:
        document.say("", [])
    return len(document.texts) - before


def _request(
    document: _Progress,
    subwords: Subwords,
    windows: WindowConfig,
    decode: DecodeConfig,
    max_positions: int,
) -> Request:
    """Build the window of a document's next sentence; too long, it loses its oldest context."""
    number = len(document.texts)
    special = subwords.special
    length = len(document.source[number])
    max_new = int(decode.max_length_ratio * length) + decode.max_length_offset
    max_new = min(max_new, max_positions - 2)
    first = max(0, number - windows.context)
    while True:
        source = _joined(document.source[first : number + 1], special.sep)
        source[-1] = special.eos
        prefix = [special.bos, *_joined(document.target[first:number], special.sep)]
        longest = max(len(source), len(prefix))
        fits = longest <= windows.max_length and len(prefix) + max_new < max_positions
        if fits or first == number:
            return Request(tuple(source), tuple(prefix), max_new)
        first += 1


def _joined(sentences: Sequence[Sequence[int]], sep: int) -> list[int]:
    return [token for sentence in sentences for token in (*sentence, sep)]
