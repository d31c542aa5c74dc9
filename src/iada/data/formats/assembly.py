"""Two sides to one document: kept if they fit, else left out whole and accounted for.

A sentence that cannot be used takes its whole document with it, because a hole would give the
sentences around it a context that they never had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.data.documents import Document, ParallelDocument
from iada.data.findings import Finding, Findings, problem


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
