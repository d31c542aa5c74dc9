"""Plain text: two aligned files, one sentence per line, boundaries as stated.

Documents are parted by a blank line, by a `<d>` line before each of them, or not at all. They
are paired by their order. A document whose sides differ in length is left out; if even the number
of documents differs, nothing after the divergence can be trusted and the files are refused.

Training files of IWSLT: `train.tags.en-de.en` and `train.tags.en-de.de`.

Metadata lines such as `<url>` and `<talkid>` stand before the sentences of each talk, some also
after them. A talk begins with the first sentence after metadata; every line that is no metadata is
a sentence, without the white space around it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from iada.config.data import Boundaries
from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.findings import Finding, Findings, Tally
from iada.data.formats.lines import Line, bad_line, repaired_lines
from iada.errors import DataError

DOCUMENT_MARKER = "<d>"


@dataclass(frozen=True)
class TextDocument:
    """Consecutive lines of a file that form one side of a document."""

    name: str
    first: int
    """Line of the first sentence."""
    lines: list[Line]
    identity: str | None = None
    """What the file calls the document; both sides must agree on it."""


def read_text(
    source: Path, target: Path, boundaries: Boundaries, findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of two aligned text files."""
    return pair_documents(
        source,
        target,
        _documents(source, boundaries, findings, findings.source),
        _documents(target, boundaries, findings, findings.target),
        findings,
    )


def pair_documents(
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
    path: Path, boundaries: Boundaries, findings: Findings, tally: Tally
) -> Iterator[TextDocument]:
    """Yield the documents of one file; account for its lines and boundaries."""
    separator = {"blank_line": "", "marker": DOCUMENT_MARKER, "none": None}[boundaries]
    documents = sentences = separators = 0
    first, lines, has_text = 1, list[Line](), False
    for separators, first, lines, is_last in _groups(repaired_lines(path, findings), separator):
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
        raise DataError(_UNPARTED.format(path=path, lines=sentences, what="blank line"))
    if boundaries == "marker" and separators == 0 and sentences > 1:
        raise DataError(_UNPARTED.format(path=path, lines=sentences, what="`<d>` line"))


_EMPTY = "empty document. Part documents by exactly one separator line on both sides."
_UNPARTED = (
    "{path} has {lines} lines but no {what} between them, so its document boundaries are unknown. "
    "Part the documents, or set `data.boundaries: none` if it is one document."
)


def _groups(
    lines: Iterator[Line], separator: str | None
) -> Iterator[tuple[int, int, list[Line], bool]]:
    """Yield the lines between separators, empty groups included.

    Yields:
        Number of separators before the group, its first line, its lines, whether it is the last.
    """
    separators, first, group = 0, 1, list[Line]()
    for number, line in enumerate(lines, start=1):
        if isinstance(line, str) and line.strip() == separator:
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


def read_tags(source: Path, target: Path, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the talks of two aligned files, paired by their order.

    Raises:
        DataError: the talks differ in number or in their ids.
    """
    return pair_documents(
        source,
        target,
        _talks(source, findings, findings.source),
        _talks(target, findings, findings.target),
        findings,
    )


def _talks(path: Path, findings: Findings, tally: Tally) -> Iterator[TextDocument]:
    talks = number = metadata = 0
    identity, first, lines = None, 1, list[Line]()
    for number, line in enumerate(repaired_lines(path, findings), start=1):
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
