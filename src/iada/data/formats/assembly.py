"""Two sides to one document: kept if they fit, else left out whole and accounted for.

A sentence that cannot be used takes its whole document with it, because a hole would give the
sentences around it a context that they never had.

Records of a file to documents, for formats that tell the document in each record.

Records of one document are consecutive. One that cannot be used may still tell its document. If it
does not, it may belong to the document before it or to the one after it, so both are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.findings import Finding, Findings, problem
from iada.errors import DataError


@dataclass(frozen=True)
class DocumentSide:
    """The sentences of one side of a document, and where they stand."""

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
    """Id of the document; None if the record does not tell."""
    source: tuple[str, ...]
    target: tuple[str, ...]
    problems: tuple[Finding, ...] = ()
    """Why the document cannot be used; never empty for a part that does not tell its document."""
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
        moved_on = None not in (record.document, group.document) and (
            record.document != group.document
        )
        if moved_on or record.is_whole or (group.records and group.records[-1].is_whole):
            yield from _close(file, group, findings)
            group = _Group(problems=_stray(file, group) if moved_on else [])
        if record.document is not None and group.document is None:
            group.document = record.document
            if hash(record.document) in seen:
                message = f"document {record.document} comes back; it was read as another one."
                findings.report("repeated_id", file, record.line, message)
            seen.add(hash(record.document))
        group.records.append(record)
        group.problems += record.problems
    if not group.records:
        raise DataError(f"{file} holds no sentence. Give a file with at least one document.")
    yield from _close(file, group, findings)


def _stray(file: Path, group: _Group) -> list[Finding]:
    """Return a problem for the next document if the group ends in a part of unknown document."""
    last = group.records[-1]
    if last.document is not None or last.is_whole:
        return []
    message = "this line tells no document, so the one after it may miss a sentence."
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
