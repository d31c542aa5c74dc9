"""What was found wrong or odd in a corpus: counted and located, in bounded memory.

Readers and checks report here. A finding is an `error` if something was left out or damaged, so
that a strict reader refuses the corpus. A `repair` was put right without loss and is counted. A
`warning` was kept as it is and is worth checking. Memory does not grow with the number of findings:
a few examples of each kind stay, the rest is counted and, if a log is given, written to it as JSON
lines. The tallies account for every unit that was read.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TextIO

from iada.errors import DataError, printable

logger = logging.getLogger(__name__)

Severity = Literal["error", "repair", "warning"]
Kind = Literal[
    "bad_utf8",
    "byte_order_mark",
    "carriage_return",
    "count_mismatch",
    "duplicate_document",
    "empty_document",
    "empty_one_side",
    "inline_code",
    "kept_target",
    "length_ratio",
    "line_break",
    "lone_surrogate",
    "malformed_markup",
    "malformed_record",
    "malformed_row",
    "missing_document",
    "missing_field",
    "nul",
    "odd_separator",
    "repeated_id",
    "replaced_target",
    "segment_mismatch",
    "shared_sentence",
    "unnamed_tag",
    "unsplit_text",
    "wrapped_segment",
    "wrong_language",
]
WARNINGS: frozenset[Kind] = frozenset(
    {
        "duplicate_document",
        "empty_one_side",
        "length_ratio",
        "odd_separator",
        "repeated_id",
        "shared_sentence",
        "unnamed_tag",
        "unsplit_text",
        "wrapped_segment",
        "wrong_language",
    }
)
"""Kinds of which nothing is repaired or left out."""
REPAIRS: frozenset[Kind] = frozenset(
    {"byte_order_mark", "carriage_return", "inline_code", "kept_target", "replaced_target"}
)
"""Kinds that are put right, or done as documented; all kinds in neither set are errors."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and where."""

    kind: Kind
    severity: Severity
    file: Path
    line: int | None
    """Line of the file, from 1; None where the format does not give lines."""
    message: str
    dropped: int = 0
    """Units of both sides that were left out because of it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message).replace("\n", "\\n"))

    @property
    def place(self) -> str:
        """The file, and the line if there is one."""
        return f"{self.file}" if self.line is None else f"{self.file}:{self.line}"


def problem(kind: Kind, file: Path, line: int | None, message: str) -> Finding:
    """Return a finding with the usual severity of its kind."""
    return Finding(kind, severity_of(kind), file, line, message)


def severity_of(kind: Kind) -> Severity:
    """Return the usual severity of a kind."""
    if kind in WARNINGS:
        return "warning"
    return "repair" if kind in REPAIRS else "error"


@dataclass
class Tally:
    """Units of one side: lines of text and TSV, sentences of JSON, segments of SGM and XML."""

    read: int = 0
    kept: int = 0
    """Sentences of the documents that were read."""
    dropped: int = 0
    """Sentences that were left out; each is explained by an error."""
    boundaries: int = 0
    """Units that are no sentences of the split: separators, headers, metadata, unused references,
    documents that were held out."""

    @property
    def balances(self) -> bool:
        """Whether every unit that was read is accounted for."""
        return self.read == self.kept + self.dropped + self.boundaries


@dataclass
class _Group:
    count: int = 0
    examples: list[Finding] = field(default_factory=list)


class Findings:
    """Collects findings and tallies while a corpus is read."""

    def __init__(
        self, log: TextIO | None = None, *, examples_per_kind: int = 3, refuse: bool = False
    ) -> None:
        """Begin without findings.

        Args:
            log: an open text file that gets every finding as one line of JSON.
            examples_per_kind: how many findings of each kind are kept.
            refuse: whether the first error is raised as a `DataError`.
        """
        self._refuse = refuse
        self.source = Tally()
        self.target = Tally()
        self._log = log
        self._limit = examples_per_kind
        self._groups: dict[tuple[Kind, Severity], _Group] = {}

    def add(self, finding: Finding) -> None:
        """Count a finding, keep it if it is among the first of its kind, and log it."""
        if self._refuse and finding.severity == "error":
            raise DataError(f"{finding.place}: {finding.message}")
        group = self._groups.setdefault((finding.kind, finding.severity), _Group())
        group.count += 1
        if len(group.examples) < self._limit:
            group.examples.append(finding)
        if self._log is not None:
            # ASCII, because a message may quote what cannot be encoded.
            self._log.write(json.dumps(_as_mapping(finding)) + "\n")

    def report(self, kind: Kind, file: Path, line: int | None, message: str) -> None:
        """Add a finding with the usual severity of its kind that left nothing out."""
        self.add(problem(kind, file, line, message))

    def drop(self, problems: Sequence[Finding], *, source: int, target: int) -> None:
        """Add the problems of one document and count its units as left out.

        The first problem carries the number of units, so that the sum over all findings is the
        number of units that are missing.
        """
        self.source.dropped += source
        self.target.dropped += target
        first, *others = problems
        self.add(replace(first, dropped=first.dropped + source + target))
        for other in others:
            self.add(other)

    def keep(self, sentences: int) -> None:
        """Count the sentences of a document that was read."""
        self.source.kept += sentences
        self.target.kept += sentences

    def add_kept(self, sentences: int) -> None:
        """Count the sentences of a document that was read from the file of another split."""
        for tally in (self.source, self.target):
            tally.read += sentences
            tally.kept += sentences

    def set_aside(self, sentences: int) -> None:
        """Count the sentences of a document as those of another split."""
        for tally in (self.source, self.target):
            tally.kept -= sentences
            tally.boundaries += sentences

    @property
    def counts(self) -> dict[Kind, int]:
        """Number of findings of each kind that occurred."""
        counts: dict[Kind, int] = {}
        for (kind, _), group in sorted(self._groups.items()):
            counts[kind] = counts.get(kind, 0) + group.count
        return counts

    @property
    def errors(self) -> int:
        """Number of findings that left something out or damaged it."""
        return self._total("error")

    @property
    def repairs(self) -> int:
        """Number of findings that put something right without loss."""
        return self._total("repair")

    @property
    def warnings(self) -> int:
        """Number of findings that changed nothing."""
        return self._total("warning")

    def examples(self, kind: Kind) -> list[Finding]:
        """Return the first findings of a kind, errors before warnings."""
        return [
            finding
            for key, group in sorted(self._groups.items())
            if key[0] == kind
            for finding in group.examples
        ]

    def table(self) -> str:
        """Return a table of kinds, severities, counts and first examples."""
        lines = [f"{'kind':<20}{'severity':<10}{'count':>8}  examples"]
        for (kind, severity), group in sorted(self._groups.items(), key=lambda item: item[0][::-1]):
            shown = [f"{finding.place}: {finding.message}" for finding in group.examples]
            head = f"{kind:<20}{severity:<10}{group.count:>8}  "
            lines += [head + shown[0], *(" " * len(head) + text for text in shown[1:])]
        if not self._groups:
            lines = ["No findings."]
        for name, tally in (("source", self.source), ("target", self.target)):
            lines.append(
                f"{name}: {tally.read} units read = {tally.kept} kept + {tally.dropped} dropped "
                f"+ {tally.boundaries} boundaries"
            )
        return "\n".join(lines)

    def summary(self) -> dict[str, object]:
        """Return counts, examples and tallies as JSON can hold them."""
        return {
            "errors": self.errors,
            "repairs": self.repairs,
            "warnings": self.warnings,
            "kinds": [
                {
                    "kind": kind,
                    "severity": severity,
                    "count": group.count,
                    "examples": [_as_mapping(finding) for finding in group.examples],
                }
                for (kind, severity), group in sorted(self._groups.items())
            ],
            "units": {"source": vars(self.source).copy(), "target": vars(self.target).copy()},
        }

    def refuse_errors(self) -> None:
        """Raise a `DataError` with all kinds of problems if there is any error."""
        if self.errors == 1:
            first = next(
                group.examples[0] for key, group in self._groups.items() if key[1] == "error"
            )
            raise DataError(f"{first.place}: {first.message}")
        if self.errors:
            raise DataError(f"The corpus has {self.list_errors()}")

    def list_errors(self) -> str:
        """Return the number of errors and, on lines of their own, the first of each kind."""
        groups = [group for (_, severity), group in self._groups.items() if severity == "error"]
        lines = [f"{self.errors} problems. The first of each kind:"]
        for group in groups:
            example = group.examples[0]
            lines.append(f"{example.place}: {example.message} ({example.kind}, {group.count})")
        return "\n".join(lines)

    def warn_of_repairs(self) -> None:
        """Log how many repairs of each kind were made, with the first of them."""
        for (kind, severity), group in sorted(self._groups.items()):
            if severity == "repair":
                first = group.examples[0]
                logger.warning("%s: %s (%s, %d)", first.place, first.message, kind, group.count)

    def verify_tallies(self) -> None:
        """Make sure that every unit is accounted for; anything else is a bug of a reader."""
        for name, tally in (("source", self.source), ("target", self.target)):
            assert tally.balances, f"the {name} side does not add up: {tally}"

    def _total(self, severity: Severity) -> int:
        return sum(group.count for key, group in self._groups.items() if key[1] == severity)


def _as_mapping(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "file": str(finding.file),
        "line": finding.line,
        "message": finding.message,
        "dropped": finding.dropped,
    }
