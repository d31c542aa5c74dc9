"""Segments: what a learned metric scores, and what such a metric promises."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Segment:
    """A text, its translation, and how it should have been translated."""

    source: str
    translation: str
    reference: str


class SegmentScorer(Protocol):
    """A metric that scores segments one by one, such as COMET."""

    @property
    def signature(self) -> str:
        """How the scores are made: the model and its version."""

    def score(self, segments: Sequence[Segment]) -> list[float]:
        """Return a score for each segment."""
