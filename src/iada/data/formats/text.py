"""Plain text: two aligned files, one sentence per line; and the training files of IWSLT.

Documents of plain text are separated by a blank line, by a `<d>` line before each of them, or not
at all, as the configuration states; nothing is guessed. They are paired by their order. A document
whose sides differ in length is left out; if even the number of documents differs, nothing after the
divergence can be trusted and the files are refused.

IWSLT's `train.tags.en-de.en` and `train.tags.en-de.de` have metadata lines such as `<url>` and
`<talkid>` before the sentences of each talk, some also after them. A talk begins with the first
sentence after metadata; every line that is not metadata is a sentence, without the white space
around it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from iada.config.data import Boundaries
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.file_format import CorpusFiles, Format, Piece, copy_lines
from iada.data.formats.findings import Finding, Findings, Tally
from iada.data.formats.lines import (
    Line,
    bad_line,
    open_for_writing,
    read_lines,
    repaired_lines,
    sentence_lines,
)
from iada.errors import DataError

DOCUMENT_MARKER = "<d>"
_SEPARATORS: dict[Boundaries, str | None] = {
    "blank_line": "",
    "marker": DOCUMENT_MARKER,
    "none": None,
}


def is_separator(line: str, boundaries: Boundaries) -> bool:
    """Tell whether a line is a document boundary and not a sentence."""
    return line.strip() == _SEPARATORS[boundaries]


class DocumentCounter:
    """Numbers the documents of a file of sentence pairs that do not name their document."""

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
        self._document = 1
        self._separators = self._pairs = 0
        self._has_pairs = False

    def document_of(self, line: Line) -> str | None:
        """Return the id of the document of the next line; None if it is a boundary."""
        if isinstance(line, str) and is_separator(line, self._boundaries):
            self._document += self._has_pairs
            self._has_pairs = False
            self._separators += 1
            return None
        self._has_pairs = True
        self._pairs += 1
        return str(self._document)

    def refuse_unknown_boundaries(self, path: Path) -> None:
        """Refuse a file of several sentence pairs without any boundary, unless that is stated."""
        if self._boundaries != "none" and self._pairs > 1 and not self._separators:
            what = "blank line" if self._boundaries == "blank_line" else "`<d>` line"
            raise DataError(_UNSEPARATED.format(path=path, lines=self._pairs, what=what))


@dataclass(frozen=True)
class Span:
    """Lines `start` to `stop` (0-based, exclusive) of a file that form one document."""

    start: int
    stop: int


def split_documents(lines: list[str], boundaries: Boundaries) -> list[Span]:
    """Find the documents of a file; an empty document gives an empty span.

    With `marker`, lines before the first `<d>` form a document of their own.
    """
    cuts = [number for number, line in enumerate(lines) if is_separator(line, boundaries)]
    starts = [0, *(cut + 1 for cut in cuts)]
    spans = [Span(start, stop) for start, stop in zip(starts, [*cuts, len(lines)], strict=True)]
    if boundaries == "marker" and spans[0].start == spans[0].stop:
        spans = spans[1:]
    if boundaries == "blank_line" and spans[-1].start == spans[-1].stop:
        spans = spans[:-1]
    return spans


def documents_of(path: Path, lines: list[str], spans: list[Span]) -> list[Document]:
    """Return the documents of a file, named after the file and their number in it."""
    return [
        Document(f"{path.name}:{number}", tuple(lines[span.start : span.stop]))
        for number, span in enumerate(spans, start=1)
    ]


def read_one_side(path: Path, boundaries: Boundaries) -> list[Document]:
    """Read the documents of a file of one language."""
    lines = read_lines(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} holds no sentence. Give a file with at least one document.")
    spans = split_documents(lines, boundaries)
    empty = [span.start for span in spans if span.start == span.stop]
    if empty:
        raise DataError(
            f"{path}:{empty[0] + 1}: empty document ({len(empty)} in the file). "
            "Separate documents by exactly one separator line."
        )
    return documents_of(path, lines, spans)


@dataclass(frozen=True)
class TextDocument:
    """Consecutive lines of a file that form one side of a document."""

    name: str
    first: int
    """Line of the first sentence."""
    lines: list[Line]
    identity: str | None = None
    """What the file calls the document; both sides must agree on it."""


def read_text(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of two aligned text files."""
    source, target = files.pair()
    return _pair_documents(
        source,
        target,
        _documents(source, files, findings, findings.source),
        _documents(target, files, findings, findings.target),
        findings,
    )


def write_text(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents into two aligned text files."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_for_writing(path)) for path in files.pair()]
        for number, document in enumerate(documents):
            for output, side in zip(outputs, (document.source, document.target), strict=True):
                output.writelines(
                    document_lines(side.sentences, files.boundaries, is_first=number == 0)
                )


def document_lines(
    sentences: Sequence[str], boundaries: Boundaries, *, is_first: bool
) -> Iterator[str]:
    """Yield the lines of one side of a document, after the line that separates it from the last."""
    if boundaries == "marker":
        yield f"{DOCUMENT_MARKER}\n"
    elif not is_first:
        if boundaries == "none":
            raise ValueError("several documents need boundaries")
        yield "\n"
    for sentence in sentences:
        if is_separator(sentence, boundaries):
            raise DataError(
                f"A sentence is {sentence!r}, which would separate documents in the output "
                f"(`data.boundaries: {boundaries}`). Remove it, or choose other boundaries."
            )
        yield f"{sentence}\n"


def text_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents and boundaries of a text file.

    `files.target`, if given, has reference translations on the same lines.
    """
    path, target, boundaries = files.source, files.target, files.boundaries
    number = 0
    lines: list[str] = []
    references: list[str] = []

    def document() -> Piece:
        reference = None
        if target is not None:
            reference = Document(f"{target.name}:{number}", tuple(references))
        return Piece(list, Document(f"{path.name}:{number}", tuple(lines)), reference)

    for place, (line, other) in enumerate(_side_by_side(files, findings), start=1):
        if place == 1 and line.lstrip().lower().startswith(_MARKUP):
            raise DataError(
                f"{path}:1: begins with {line.strip()[:20]!r}, so it is markup and not plain text. "
                "Name its format, by `--format` or its file name, if it is TMX or XLIFF; else give "
                "its sentences as plain text, TSV or JSON lines."
            )
        is_boundary = is_separator(line, boundaries)
        if other is not None and is_boundary != is_separator(other, boundaries):
            raise DataError(
                f"{path}:{place} and {target}:{place} differ: only one of them separates "
                f"documents. {_ALIGNED}"
            )
        if not is_boundary:
            lines.append(line)
            references.append(other or "")
            continue
        if lines:
            number += 1
            yield document()
        yield copy_lines([line])
        lines, references = [], []
    if lines:
        number += 1
        yield document()


_MARKUP = ("<?xml", "<!doctype", "<!--", "<tmx", "<xliff", "<html", "<srcset", "<refset", "<tstset")
_ALIGNED = "References must have the lines of the source."


def _side_by_side(files: CorpusFiles, findings: Findings) -> Iterator[tuple[str, str | None]]:
    path, target, limit = files.source, files.target, files.max_line_bytes
    lines = sentence_lines(path, findings, limit)
    if target is None:
        yield from ((line, None) for line in lines)
        return
    others = sentence_lines(target, findings, limit)
    for number, line in enumerate(lines, start=1):
        other = next(others, None)
        if other is None:
            raise DataError(f"{target} ends before line {number}, but {path} continues. {_ALIGNED}")
        yield line, other
    if next(others, None) is not None:
        raise DataError(f"{target} has more lines than {path}. {_ALIGNED}")


def _pair_documents(
    source: Path,
    target: Path,
    source_documents: Iterator[TextDocument],
    target_documents: Iterator[TextDocument],
    findings: Findings,
) -> Iterator[ParallelDocument]:
    """Yield the documents of two files, paired by their order.

    Raises:
        DataError: the files differ in the number of documents or in what they call one of them.
    """
    source_count = target_count = 0
    divergence: str | None = None
    for left, right in zip_longest(source_documents, target_documents):
        source_count += left is not None
        target_count += right is not None
        # Documents that are empty on both sides were reported when they were read.
        if left is None or right is None or not (left.lines or right.lines):
            continue
        if left.identity and right.identity and left.identity != right.identity:
            raise DataError(
                f"{source}:{left.first}: document {source_count} is {left.identity}, but at "
                f"{target}:{right.first} it is {right.identity}. Both sides must have the same "
                "documents in the same order."
            )
        problems: list[Finding] = []
        sides = _side(source, left, problems), _side(target, right, problems)
        if divergence is None and len(left.lines) != len(right.lines):
            divergence = f"document {source_count} with {' but '.join(s.describe() for s in sides)}"
        document = assemble(*sides, problems, findings)
        if document is not None:
            yield document
    if source_count != target_count:
        where = divergence or f"the end, after document {min(source_count, target_count)}"
        raise DataError(
            f"{source} has {source_count} documents but {target} has {target_count}. They first "
            f"diverge at {where}. Both sides must be aligned document by document."
        )


def _side(file: Path, document: TextDocument, problems: list[Finding]) -> DocumentSide:
    sentences = [line for line in document.lines if isinstance(line, str)]
    lines = range(document.first, document.first + len(document.lines))
    if len(sentences) < len(document.lines):
        for number, line in zip(lines, document.lines, strict=True):
            if not isinstance(line, str):
                problems.append(bad_line(file, number, line))
        sentences = [line if isinstance(line, str) else line.text for line in document.lines]
    return DocumentSide(file, document.name, sentences, lines)


def _documents(
    path: Path, files: CorpusFiles, findings: Findings, tally: Tally
) -> Iterator[TextDocument]:
    """Yield the documents of one file; account for its lines and boundaries."""
    boundaries = files.boundaries
    all_lines = repaired_lines(path, findings, files.max_line_bytes)
    documents = sentences = separators = 0
    first, lines, has_text = 1, list[Line](), False
    for separators, first, lines, is_last in _groups(all_lines, boundaries):
        if not lines:
            # A marker needs nothing before it, and a blank line nothing after it.
            if boundaries == "none" or (separators == 0 if boundaries == "marker" else is_last):
                continue
            place = first - 1 if boundaries == "marker" else first
            findings.report("empty_document", path, place, _EMPTY)
            # Each marker announces a document, so an empty one keeps its place in the order.
            if boundaries == "blank_line":
                continue
        documents += 1
        sentences += len(lines)
        has_text = has_text or any(not isinstance(line, str) or line.strip() for line in lines)
        yield TextDocument(f"{path.name}:{documents}", first, lines)
    tally.read += first - 1 + len(lines)
    tally.boundaries += separators
    if not has_text:
        raise DataError(f"{path} holds no sentence. Give a file with at least one document.")
    if boundaries == "blank_line" and documents == 1 and sentences > 1:
        raise DataError(_UNSEPARATED.format(path=path, lines=sentences, what="blank line"))
    if boundaries == "marker" and separators == 0 and sentences > 1:
        raise DataError(_UNSEPARATED.format(path=path, lines=sentences, what="`<d>` line"))


_EMPTY = "empty document. Separate documents by exactly one separator line on both sides."
_UNSEPARATED = (
    "{path} has {lines} lines but no {what} between them, so its document boundaries are unknown. "
    "Separate the documents, or set `data.boundaries: none` if it is one document."
)


def _groups(
    lines: Iterator[Line], boundaries: Boundaries
) -> Iterator[tuple[int, int, list[Line], bool]]:
    """Yield the lines between separators, empty groups included.

    Yields:
        Number of separators before the group, its first line, its lines, whether it is the last.
    """
    separators, first, group = 0, 1, list[Line]()
    for number, line in enumerate(lines, start=1):
        if isinstance(line, str) and is_separator(line, boundaries):
            yield separators, first, group, False
            separators, first, group = separators + 1, number + 1, []
        else:
            group.append(line)
    yield separators, first, group, True


_METADATA = re.compile(
    r"\s*</?(?:url|keywords|speaker|talkid|title|description|translator|reviewer|doc|transcript"
    r"|recording|dtime|videourl|videopath|translators|reviewers|date|file|xml|mteval|refset|srcset)"
    r"[\s>/]",
    re.IGNORECASE | re.ASCII,
)
_TALK = re.compile(r"\s*<talkid>([^<]*)<", re.IGNORECASE)


def read_tags(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the talks of two aligned files of IWSLT, paired by their order.

    Raises:
        DataError: the talks differ in number or in their ids.
    """
    source, target = files.pair()
    return _pair_documents(
        source,
        target,
        _talks(source, files.max_line_bytes, findings, findings.source),
        _talks(target, files.max_line_bytes, findings, findings.target),
        findings,
    )


def _talks(
    path: Path, max_line_bytes: int, findings: Findings, tally: Tally
) -> Iterator[TextDocument]:
    talks = number = metadata = 0
    identity, first, lines = None, 1, list[Line]()
    for number, line in enumerate(repaired_lines(path, findings, max_line_bytes), start=1):
        text = line if isinstance(line, str) else line.text
        if not _METADATA.match(text):
            first = first if lines else number
            lines.append(line.strip() if isinstance(line, str) else line)
            continue
        metadata += 1
        if not isinstance(line, str):
            findings.add(bad_line(path, number, line))
        if lines:
            talks += 1
            yield TextDocument(f"{path.name}:{identity or talks}", first, lines, identity)
            identity, lines = None, []
        talk = _TALK.match(text)
        identity = talk.group(1).strip() if talk else identity
    if lines:
        talks += 1
        yield TextDocument(f"{path.name}:{identity or talks}", first, lines, identity)
    tally.read += number
    tally.boundaries += metadata
    if not talks:
        raise DataError(f"{path} holds no sentence. Give a file with at least one talk.")
    if not metadata:
        raise DataError(
            f"{path} has no metadata line such as `<url>` or `<talkid>`, so its talks are "
            "unknown. Set `data.format: text` if it is plain text."
        )


TEXT = Format(names=("*",), files="two", read=read_text, write=write_text, pieces=text_pieces)
TAGS = Format(names=("train.tags.*",), files="two", read=read_tags)
