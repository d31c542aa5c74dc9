"""Terminology: of the translations that a search has found, one with the agreed terms.

A file has a term on each line: a phrase of the source, a tab, and its translation. A phrase may
have several lines, such as the inflected forms of its translation, and any of them will do. Nothing
is forced: where no translation of the n-best list has a term, it is missing, and counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iada.data.formats.findings import Findings
from iada.data.formats.lines import decoded_lines
from iada.errors import DataError


@dataclass
class Terms:
    """Agreed translations, and how often they were met."""

    translations: dict[str, list[str]]
    """From a phrase of the source to its translations, any of which will do."""
    asked: int = 0
    """Terms of the sentences translated so far."""
    met: int = 0
    """Those that their translations have."""
    _patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def order(self, source: str, candidates: Sequence[str]) -> list[int]:
        """Return the numbers of candidates, those with most terms first, and count the first.

        Candidates with as many terms stay in their order.
        """
        wanted = [forms for phrase, forms in self.translations.items() if self._has(source, phrase)]
        counts = [
            sum(any(self._has(text, form) for form in forms) for forms in wanted)
            for text in candidates
        ]
        order = sorted(range(len(counts)), key=lambda number: -counts[number])
        self.asked += len(wanted)
        self.met += counts[order[0]]
        return order

    def _has(self, text: str, phrase: str) -> bool:
        if phrase not in self._patterns:
            self._patterns[phrase] = _pattern(phrase)
        return self._patterns[phrase].search(text) is not None


def read_terms(path: Path) -> Terms:
    """Read a file of terms.

    Raises:
        DataError: a line is not a phrase, a tab and a translation, or there is none.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(decoded_lines(path, Findings(refuse=True)), start=1):
        if isinstance(line, str) and not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")] if isinstance(line, str) else []
        if len(cells) != 2 or not all(cells):
            raise DataError(
                f"{path}:{number}: is not a term. Each line is a phrase of the source, a tab, and "
                "its translation, in UTF-8."
            )
        found.setdefault(cells[0], []).append(cells[1])
    if not found:
        raise DataError(f"{path} has no term. Each line is a phrase, a tab, and its translation.")
    return Terms(found)


def _pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds a phrase as whole words, in capitals or not.

    Scripts without capitals may write words without spaces, so there any place will do.
    """
    before = r"(?<!\w)" if _has_case(phrase[0]) else ""
    after = r"(?!\w)" if _has_case(phrase[-1]) else ""
    return re.compile(before + re.escape(phrase) + after, re.IGNORECASE)


def _has_case(symbol: str) -> bool:
    return symbol.isdigit() or symbol.lower() != symbol.upper()
