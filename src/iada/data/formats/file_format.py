"""What a file format is: how its files are named, read, written, and filled with translations.

A format is one module with a `FORMAT` and one line in the table of `iada.data.formats.readers`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from iada.config.data import MAX_LINE_BYTES, Boundaries
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.findings import Findings

HYPOTHESIS = "hypothesis"
"""Field of WMT's JSON lines with the translation of a system, and its name as a reference."""


@dataclass(frozen=True)
class CorpusFiles:
    """The files of one split, or one file to translate, and how to read them."""

    source: Path
    """File of the source side, or of both sides."""
    target: Path | None = None
    """File of the target side; None where only the source side is read."""
    languages: tuple[str, str] = ("en", "de")
    """Language codes that may name columns and fields, source first."""
    boundaries: Boundaries = "blank_line"
    """What separates documents in plain text."""
    reference: str | None = None
    """Translator to take where a file has several references; by default the first."""
    max_line_bytes: int = MAX_LINE_BYTES
    """Longest line that is read."""
    columns: tuple[str | None, str | None, str | None] = (None, None, None)
    """Columns or fields of document, source and target; None where the usual names apply."""
    keeps_targets: bool = False
    """Whether translations that the file marks as done stand as they are."""

    @property
    def has_numbered_columns(self) -> bool:
        """Whether columns are given by numbers, as in files without a header."""
        return self.columns != (None, None, None) and all(
            name is None or name.isdecimal() for name in self.columns
        )

    def pair(self) -> tuple[Path, Path]:
        """Return the files of both sides; the same file twice if it holds both."""
        return self.source, self.target or self.source


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of a file to translate: one document, or lines to copy."""

    render: Callable[[Sequence[str]], list[str]]
    """From the translated sentences to the lines of the output."""
    document: Document | None = None
    """What to translate; None if the lines are copied."""
    reference: Document | None = None
    """Its translation in the file, if there is one."""
    kept: tuple[str | None, ...] = ()
    """Translation of each sentence that stands as it is, None where there is none; empty if no
    sentence has one."""


def report_target(
    files: CorpusFiles, line: int | None, findings: Findings, *, stands: bool
) -> None:
    """Count a translation that a file to translate has already; those of a test set are no news."""
    if not files.keeps_targets:
        return
    if stands:
        message = (
            "this translation is marked as done and stands as it is; `--overwrite_targets` "
            "translates it again."
        )
        findings.report("kept_target", files.source, line, message)
    else:
        message = "this translation is not marked as done and is replaced."
        findings.report("replaced_target", files.source, line, message)


def copy_lines(lines: Sequence[str]) -> Piece:
    """Return a piece without a sentence."""
    kept = list(lines)
    return Piece(lambda _: kept)


@dataclass(frozen=True)
class Format:
    """A file format.

    Readers yield the documents that can be used, and report and count everything else in the
    findings. Writers write documents so that they read back as the same ones. Pieces are for
    translation: the output has the form of the input, with the target side filled.
    """

    names: tuple[str, ...]
    """Patterns such as `*.tsv` of file names that have this format, `.gz` left aside."""
    files: Literal["one", "two", "either"]
    """Whether a split is one file with both sides or two files with one side each."""
    read: Callable[[CorpusFiles, Findings], Iterator[ParallelDocument]]
    write: Callable[[CorpusFiles, Iterable[ParallelDocument]], None] | None = None
    """None if the format is only read."""
    pieces: Callable[[CorpusFiles, Findings], Iterator[Piece]] | None = None
    """None if files of this format cannot be translated in place."""
    assemble: Callable[[CorpusFiles, Path, Path], None] | None = None
    """Makes a file that is no text from the lines that its pieces have rendered, given the file to
    translate, the lines, and the output; None where the lines are the output."""

    @property
    def fills_lines(self) -> bool:
        """Whether a translated file is text of this format."""
        return self.pieces is not None and self.assemble is None

    def matches(self, name: str) -> bool:
        """Tell whether a file name belongs to the format."""
        plain = Path(name).name.removesuffix(".gz")
        return any(fnmatchcase(plain, pattern) for pattern in self.names)
