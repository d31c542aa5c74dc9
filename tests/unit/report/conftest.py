"""Hand-made runs and windows, small enough to check by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iada.analysis.importance_map import TokenView, WindowView
from iada.data.roles import Role
from iada.report.runs import RunSummary

MakeRun = Callable[..., RunSummary]
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"


def counts(correct: int, total: int) -> dict[str, int]:
    return {"correct": correct, "total": total}


def make_run(
    name: str = "Doc2Doc",
    seed: int = 1,
    *,
    bleu: float = 20.0,
    correct: int = 50,
    nll: float = 3.0,
    scores: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> RunSummary:
    contrastive = {
        **counts(correct, 100),
        "context": counts(correct, 200),
        "by_class": {"er": counts(1, 4), "sie": counts(2, 4), "es": counts(3, 4)},
        "by_distance": {key: counts(1, 2) for key in ("0", "1", "2", "3", ">3")},
    }
    measured = {
        "s_bleu": {"score": bleu, "signature": SIGNATURE},
        "d_bleu": {"score": bleu + 1, "signature": SIGNATURE},
        "contrastive": contrastive,
    }
    metrics: tuple[dict[str, Any], ...] = (
        {"update": 1, "seconds": 10.0, "loss": 5.0, "original": 5.0},
        {"update": 2, "seconds": 60.0, "dev_nll": nll + 1},
        {"update": 4, "seconds": 90.0, "dev_nll": nll},
    )
    return RunSummary(
        name=name,
        method="doc2doc",
        seed=seed,
        folder=Path(f"runs/{name}-{seed}"),
        metrics=metrics,
        scores=measured if scores is None else scores,
        config={"windows": {"context": 3}} if config is None else config,
    )


@pytest.fixture
def new_run() -> MakeRun:
    return make_run


@pytest.fixture
def runs() -> list[RunSummary]:
    """One seed of Doc2Doc, and three of IADA that are not in order."""
    iada = "IADA (Repl, GNorm)"
    return [
        make_run(),
        make_run(iada, 3, bleu=24.0, correct=80, nll=2.8),
        make_run(iada, 1, bleu=22.0, correct=60, nll=2.4),
        make_run(iada, 2, bleu=23.0, correct=70, nll=2.6),
    ]


@pytest.fixture
def views() -> list[WindowView]:
    """One window: a context sentence and the current one, on both sides."""
    special = Role.SPECIAL
    source = (
        TokenView("▁Lamp", Role.CONTEXT, 2.0, 1.25, 0.05),
        TokenView("s", Role.CONTEXT, 0.5, -2.5, 0.2),
        TokenView("<sep>", special, 9.0, 0.0, 0.0),
        TokenView("▁They", Role.CURRENT, 1.0, 0.5, 0.1),
        TokenView("</s>", special, 9.0, 0.0, 0.0),
    )
    target = (
        TokenView("<s>", special, 9.0, 0.0, 0.0),
        TokenView("▁Leuchten", Role.CONTEXT, 1.0, 0.0, 0.1),
        TokenView("<sep>", special, 9.0, 0.0, 0.0),
        TokenView("▁Sie", Role.CURRENT, 1.5, 9.0, 0.1),
    )
    return [WindowView("house", 2, source, target)]
