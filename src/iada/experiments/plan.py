"""What an experiment is before it is run: systems, rows, what is compared, and how it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iada.errors import ConfigError, did_you_mean

Synthetic = Literal["back_translate", "forward_translate"]
Change = tuple[str, str | int | float]
"""Configuration key and value."""
TableView = Literal[
    "systems",
    "classes",
    "distances",
    "distance_gains",
    "shares",
    "noise",
    "tags",
    "differences",
    "costs",
    "agreement",
]
"""Tables that the report can make of an experiment; see `iada.report.views`."""
FigureView = Literal["classes", "distance_gains", "share_gains", "tags", "sweep"]
"""Figures that the report can draw of an experiment."""
AnswerView = Literal["importance", "sweep"]
"""Questions that the report can answer from the rows of an experiment."""


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
    start: "System | None" = None
    """Whose trained weights it begins with, from the run of the same seed; None for random ones."""


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
class Ranges:
    """Values of what some experiments vary."""

    shares: Sequence[float] = (0.2, 0.5, 1.0)
    """Shares of the training documents."""
    alphas: Sequence[float] = (0.0, 0.1, 0.3, 1.0, 3.0)
    """Values of `augment.alpha`."""
    rates: Sequence[float] = (0.05, 0.2, 0.3)
    """Replacement probabilities of the uniform control, besides the usual 0.1."""
    mbart: str | None = None
    """Folder or hub name of an mBART, for the row that starts from one."""
    bert: str | None = None
    """Folder or hub name of a BERT, for the rows whose encoder it is."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its rows, and how it is shown."""

    name: str
    title: str
    """Caption of its table."""
    rows: tuple[PlannedRow, ...]
    baseline: str
    """Key of the row that the others are compared with, unless they say otherwise."""
    heading: str = ""
    """Of its section in the report; by default the title."""
    navigation: str = ""
    """Name of the section in the navigation of the page; by default the heading."""
    shown_with: str | None = None
    """Experiment in whose section it is shown; None for a section of its own."""
    question: str = ""
    """What is asked, and what the reader must know about the rows."""
    left_out: tuple[str, ...] = ()
    """Rows that cannot be run here, each with what it needs."""
    axis: str | None = None
    """Key whose values order the rows of a curve."""
    breakdown: Literal["class", "distance"] | None = None
    """Part of the contrastive accuracy to show."""
    has_pos: bool = False
    """Whether to count the parts of speech of perturbed tokens."""
    compares_measures: bool = False
    """Whether to ask the models how measures of importance agree."""
    answer: AnswerView | None = None
    """What the report says first."""
    figure: FigureView | None = None
    caption: str = ""
    """Of the figure."""
    tables: tuple[TableView, ...] = ("systems",)


def with_rows(experiment: Experiment, keys: Sequence[str]) -> Experiment:
    """Return an experiment with some of its rows and those that they are compared with.

    Raises:
        ConfigError: a key is no row of the experiment.
    """
    known = [row.key for row in experiment.rows]
    for key in keys:
        if key not in known:
            raise ConfigError(
                f"`rows` has `{key}`, but `{experiment.name}` has no such row. "
                f"{did_you_mean(key, known)}"
            )
    kept = {experiment.baseline, *keys}
    kept |= {row.against for row in experiment.rows if row.key in kept and row.against}
    return replace(experiment, rows=tuple(row for row in experiment.rows if row.key in kept))
