"""What an experiment is before it is run: systems, rows and what is compared with what.

A system is a method and the keys in which it departs from the method.
"""

from dataclasses import dataclass
from typing import Literal

from iada.config.experiment import ExperimentName

Synthetic = Literal["back_translate", "forward_translate"]
Change = tuple[str, str | int | float]
"""Configuration key and value."""


@dataclass(frozen=True)
class System:
    """What is trained, whatever the seed."""

    method: str
    changes: tuple[Change, ...] = ()
    """Keys that differ from the method's usual values."""
    synthetic: Synthetic | None = None
    """How the other half of the training data is made; None for real data alone."""
    reverse: bool = False
    """Translate from the target language into the source language."""


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table before it has numbers."""

    key: str
    label: str
    system: System
    series: str | None = None
    value: float | None = None
    against: str | None = None
    """Key of the row to compare with; None for one that others are compared with."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure."""

    name: ExperimentName
    title: str
    rows: tuple[PlannedRow, ...]
    baseline: str
    """Key of the row that the others are compared with, unless they say otherwise."""
    axis: str | None = None
    """Key whose values order the rows of a curve."""
    breakdown: Literal["class", "distance"] | None = None
    """Part of the contrastive accuracy to show."""
    has_pos: bool = False
    """Whether to count the parts of speech of perturbed tokens."""
