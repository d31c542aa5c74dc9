"""From sides, records and lines to documents; what cannot be used is left out and counted.

A sentence that cannot be used takes its whole document with it, because a hole would give the
sentences around it a context that they never had.

In formats whose records name their document, the records of one document are consecutive. A record
that cannot be used may still name its document. If it does not, it may belong to the document
before it or to the one after it, so both are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.file_format import Piece
from iada.data.formats.findings import Finding, Findings, problem
from iada.errors import DataError


@dataclass(frozen=True)
class DocumentSide:
    """The sentences of one side of a document, and where they are."""

    file: Path
    name: str
    sentences: Sequence[str]
    lines: Sequence[int | None]
    """Line of each sentence in the file."""

    def describe(self) -> str:
        """Return the number of sentences, the file and the lines."""
        count = f"{len(self.sentences)} sentence{'s' * (len(self.sentences) != 1)} in {self.file}"
        known = [line for line in self.lines if line is not None]
        if not known:
            return count
        if known[0] == known[-1]:
            return f"{count} (line {known[0]})"
        return f"{count} (lines {known[0]}-{known[-1]})"


def assemble(
    source: DocumentSide,
    target: DocumentSide,
    problems: Sequence[Finding],
    findings: Findings,
) -> ParallelDocument | None:
    """Return the document, or None after reporting why it was left out."""
    found = [*problems]
    if len(source.sentences) != len(target.sentences):
        found.append(count_mismatch(source, target))
    if found:
        findings.drop(found, source=len(source.sentences), target=len(target.sentences))
        return None
    if not (all(map(str.strip, source.sentences)) and all(map(str.strip, target.sentences))):
        _report_empty(source, target, findings)
    findings.keep(len(source.sentences))
    return ParallelDocument(
        Document(source.name, tuple(source.sentences)),
        Document(target.name, tuple(target.sentences)),
    )


def count_mismatch(source: DocumentSide, target: DocumentSide) -> Finding:
    """Return the problem of sides of unequal length, at the first line of the source side."""
    message = (
        f"document {source.name} has {source.describe()} but {target.describe()}. "
        "Both sides must be aligned one to one."
    )
    return problem(
        "count_mismatch", source.file, source.lines[0] if source.lines else None, message
    )


def _report_empty(source: DocumentSide, target: DocumentSide, findings: Findings) -> None:
    pairs = zip(source.sentences, source.lines, target.sentences, target.lines, strict=True)
    for left, left_line, right, right_line in pairs:
        if bool(left.strip()) == bool(right.strip()):
            continue
        empty, line = (target.file, right_line) if left.strip() else (source.file, left_line)
        name = f"document {source.name}"
        message = f"a sentence of {name} is empty here but not on the other side; it was kept."
        findings.report("empty_one_side", empty, line, message)


@dataclass(frozen=True)
class Record:
    """Sentences of one line of a file."""

    line: int
    document: str | None
    """Id of the document; None if the record does not name it."""
    source: tuple[str, ...]
    target: tuple[str, ...]
    problems: tuple[Finding, ...] = ()
    """Why the document cannot be used; never empty for a part that does not name its document."""
    is_whole: bool = False
    """Whether the record is a document and not a part of one."""


@dataclass
class _Group:
    document: str | None = None
    records: list[Record] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)


def group_records(
    file: Path, records: Iterable[Record], findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a file.

    Raises:
        DataError: there is no record.
    """
    # Hashes, not ids: a corpus may have millions of them.
    seen: set[int] = set()
    group = _Group()
    for record in records:
        is_next = None not in (record.document, group.document) and (
            record.document != group.document
        )
        if is_next or record.is_whole or (group.records and group.records[-1].is_whole):
            yield from _close(file, group, findings)
            group = _Group(problems=_missing_part(file, group) if is_next else [])
        if record.document is not None and group.document is None:
            group.document = record.document
            if hash(record.document) in seen:
                message = f"document {record.document} occurs again; it was read as another one."
                findings.report("repeated_id", file, record.line, message)
            seen.add(hash(record.document))
        group.records.append(record)
        group.problems += record.problems
    if not group.records:
        raise DataError(f"{file} holds no sentence. Give a file with at least one document.")
    yield from _close(file, group, findings)


def _missing_part(file: Path, group: _Group) -> list[Finding]:
    """Return a problem for the next document if the group ends in a part of unknown document."""
    last = group.records[-1]
    if last.document is not None or last.is_whole:
        return []
    message = "this line names no document, so the next one may lack a sentence."
    return [problem("missing_field", file, last.line, message)]


def _close(file: Path, group: _Group, findings: Findings) -> Iterator[ParallelDocument]:
    if not group.records:
        return
    name = f"{file.name}:{group.document or group.records[0].line}"
    source = _side(file, name, [(record.line, record.source) for record in group.records])
    target = _side(file, name, [(record.line, record.target) for record in group.records])
    problems = group.problems
    if not problems and not source.sentences and not target.sentences:
        message = f"document {name} is empty. Leave it out, or give its sentences."
        problems = [problem("empty_document", file, group.records[0].line, message)]
    document = assemble(source, target, problems, findings)
    if document is not None:
        yield document


def _side(file: Path, name: str, parts: list[tuple[int, tuple[str, ...]]]) -> DocumentSide:
    sentences = [sentence for _, part in parts for sentence in part]
    return DocumentSide(file, name, sentences, [line for line, part in parts for _ in part])


@dataclass(frozen=True)
class FillableLine:
    """A line of a file to translate, in formats whose lines name their document."""

    render: Callable[[Sequence[str]], str]
    """From the translated sentences of the line to the line of the output."""
    source: tuple[str, ...] = ()
    reference: tuple[str, ...] | None = None
    """The translations in the file, if there is one for each sentence."""
    document: str | None = None
    line: int = 0
    is_whole: bool = False
    """Whether the line is a document and not a part of one."""
    is_blank: bool = False
    """Whether the line has no record; it stays with the document before it."""


def group_lines(file: Path, lines: Iterable[FillableLine]) -> Iterator[Piece]:
    """Yield the documents of a file as pieces."""
    number = 1
    group: list[FillableLine] = []
    last: FillableLine | None = None
    for line in lines:
        if not line.is_blank:
            is_next = last is not None and (
                line.is_whole or last.is_whole or last.document != line.document
            )
            if is_next:
                yield _fillable_piece(file, number, group)
                number, group = number + 1, []
            last = line
        group.append(line)
    if group:
        yield _fillable_piece(file, number, group)


def _fillable_piece(file: Path, number: int, lines: list[FillableLine]) -> Piece:
    def render(sentences: Sequence[str]) -> list[str]:
        remaining = iter(sentences)
        return [line.render([next(remaining) for _ in line.source]) for line in lines]

    records = [line for line in lines if not line.is_blank]
    if not records:
        return Piece(render)
    name = f"{file.name}:{number} ({records[0].document or records[0].line})"
    source = Document(name, tuple(sentence for line in records for sentence in line.source))
    references = [line.reference for line in records]
    if any(reference is None for reference in references):
        return Piece(render, source)
    target = tuple(sentence for reference in references for sentence in reference or ())
    return Piece(render, source, Document(name, target))
