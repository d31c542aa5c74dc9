"""Documents to the files of a corpus: plain text, TSV or JSON lines.

What is written here reads back as the same documents. Memory does not grow with the corpus, and
equal documents give equal bytes.
"""

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from iada.config.data import Boundaries, DataConfig, FileFormat, Split
from iada.data.documents import ParallelDocument
from iada.data.formats.text import DOCUMENT_MARKER
from iada.errors import DataError

WRITTEN: tuple[FileFormat, ...] = ("text", "tsv", "jsonl")
"""Forms that can be written."""


def rewritten(data: DataConfig, folder: Path, *, several: bool = False) -> DataConfig:
    """Return how a corpus is described when it is written into another folder.

    Names, form and boundaries stay if they can. A form that is only read, and text without
    boundaries where there are several documents, become text with `<d>` lines.

    Args:
        data: the corpus as it is.
        folder: where it is to be written.
        several: whether there will be more than one document.
    """
    form = data.file_format("train")
    is_unparted = form == "text" and data.boundaries == "none" and several
    if form in WRITTEN and not is_unparted:
        return replace(data, folder=folder, prepared=None)
    return replace(
        data,
        folder=folder,
        prepared=None,
        format="text",
        boundaries="marker",
        train="train.{language}",
        dev="dev.{language}",
        test="test.{language}",
    )


def write_split(data: DataConfig, split: Split, documents: Iterable[ParallelDocument]) -> None:
    """Write the documents of a split in the form that the configuration gives.

    TSV and JSON lines hold the number of a document, counted from 1, and the two sides under their
    language codes, so that they can be read in both directions.
    """
    languages = data.source_language, data.target_language
    source, target = data.paths(split)
    source.parent.mkdir(parents=True, exist_ok=True)
    match data.file_format(split):
        case "text":
            _write_text(source, target, data.boundaries, documents)
        case "tsv":
            _write_lines(source, _tsv_lines(documents, languages))
        case "jsonl":
            _write_lines(source, _json_lines(documents, languages))
        case form:
            raise ValueError(f"the form {form} is only read")


def parts_documents(sentence: str, boundaries: Boundaries) -> bool:
    """Whether a line of text would not be read as a sentence but as a document boundary."""
    separator = {"blank_line": "", "marker": DOCUMENT_MARKER, "none": None}[boundaries]
    return sentence.strip() == separator


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 file for writing, packed if its name ends in `.gz`."""
    if path.suffix != ".gz":
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    # Without the time of day, so that equal text gives equal bytes.
    with (
        gzip.GzipFile(path, "wb", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as file,
    ):
        yield file


def _write_text(
    source: Path, target: Path, boundaries: Boundaries, documents: Iterable[ParallelDocument]
) -> None:
    with ExitStack() as stack:
        files = [stack.enter_context(text_file(path)) for path in (source, target)]
        for number, document in enumerate(documents):
            for file, side in zip(files, (document.source, document.target), strict=True):
                file.writelines(document_lines(side.sentences, boundaries, is_first=number == 0))


def document_lines(
    sentences: Sequence[str], boundaries: Boundaries, *, is_first: bool
) -> Iterator[str]:
    """Yield the lines of one side of a document, after the line that parts it from the last."""
    if boundaries == "marker":
        yield f"{DOCUMENT_MARKER}\n"
    elif not is_first:
        if boundaries == "none":
            raise ValueError("several documents need boundaries")
        yield "\n"
    for sentence in sentences:
        if parts_documents(sentence, boundaries):
            raise DataError(
                f"A sentence is {sentence!r}, which would part documents in the output "
                f"(`data.boundaries: {boundaries}`). Remove it, or choose other boundaries."
            )
        yield f"{sentence}\n"


def _tsv_lines(documents: Iterable[ParallelDocument], languages: tuple[str, str]) -> Iterator[str]:
    yield "\t".join(("document", *languages)) + "\n"
    for number, document in enumerate(documents, start=1):
        for pair in zip(document.source.sentences, document.target.sentences, strict=True):
            if any("\t" in sentence for sentence in pair):
                raise ValueError(f"a sentence of {document.name} holds a tab")
            yield "\t".join((str(number), *pair)) + "\n"


def _json_lines(documents: Iterable[ParallelDocument], languages: tuple[str, str]) -> Iterator[str]:
    for number, document in enumerate(documents, start=1):
        sides = (document.source.sentences, document.target.sentences)
        record = {"id": number, **dict(zip(languages, sides, strict=True))}
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with text_file(path) as file:
        file.writelines(lines)
