"""Hand-made runs, windows and experiments, small enough to check by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from iada.analysis.importance_map import TokenView, WindowView
from iada.data.windows.batch import Role
from iada.experiments.results import Axis, Results, Row, Significance, write_results
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


DOC2DOC, WORD_REPLACE = {"method": "doc2doc"}, {"method": "word_replace"}
TNORM, GNORM = {"method": "iada_replace_tnorm"}, {"method": "iada_replace_gnorm"}
UNIFORM = {"method": "uniform_replace_all_losses"}
RANDOM = {"method": "iada_replace_random"}
TEST = f"{SIGNATURE}|bs:10000|seed:12345|unit:sentence"
MakeRow = Callable[..., Row]
MakeResults = Callable[..., Results]


def make_row(
    label: str,
    settings: Mapping[str, Any],
    bleu: Sequence[float] = (20.0, 21.0, 22.0),
    *,
    p: Sequence[float] | None = None,
    against: str = "Doc2Doc",
    series: str | None = None,
    value: float | None = None,
    breakdown: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    pos: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
) -> Row:
    """A row whose key is its label: d-BLEU is one higher, and accuracies follow BLEU."""
    metrics = {
        "s_bleu": tuple(bleu),
        "d_bleu": tuple(value + 1 for value in bleu),
        "pronouns": tuple(value / 100 for value in bleu),
        "pronouns_needing_context": tuple(value / 50 for value in bleu),
        "dev_nll": tuple(5 - value / 10 for value in bleu),
    }
    return Row(
        key=label,
        label=label,
        settings=settings,
        runs=tuple(f"../runs/{label}/seed-{seed + 1}" for seed in range(len(bleu))),
        metrics=metrics,
        series=series,
        value=value,
        breakdown=_grouped(breakdown or {}),
        pos=_grouped(pos or {}),
        significance={} if p is None else {"s_bleu": Significance(tuple(p), TEST, against)},
    )


def _grouped(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
) -> dict[str, dict[str, tuple[float, ...]]]:
    return {
        kind: {key: tuple(values) for key, values in parts.items()}
        for kind, parts in groups.items()
    }


def make_results(experiment: str, *rows: Row, data: str = "mini", **changed: Any) -> Results:
    seeds = len(next(iter(rows[0].metrics.values())))
    first = next((row.key for row in rows if row.settings["method"] == "doc2doc"), rows[0].key)
    return Results(
        **{
            "experiment": experiment,
            "title": f"Title of {experiment}",
            "data": data,
            "base": {"parameters": 412000, "updates": 1000},
            "seeds": tuple(range(1, seeds + 1)),
            "baseline": first,
            "rows": rows,
        }
        | changed
    )


@pytest.fixture
def new_row() -> MakeRow:
    return make_row


@pytest.fixture
def new_results() -> MakeResults:
    return make_results


def four_rows(**parts: Any) -> list[Row]:
    """Doc2Doc, WordRepl and both measures of IADA, each a little better than the one before."""
    systems = [
        ("Doc2Doc", DOC2DOC),
        ("WordRepl", WORD_REPLACE),
        ("IADA (Repl, TNorm)", TNORM),
        ("IADA (Repl, GNorm)", GNORM),
    ]
    return [
        make_row(
            label,
            settings,
            (20.0 + n, 21.0 + 1.5 * n, 22.0 + n),
            p=None if n == 0 else (0.01, 0.2, 0.03),
            **{name: make(n) for name, make in parts.items()},
        )
        for n, (label, settings) in enumerate(systems)
    ]


def all_results() -> list[Results]:
    """Every experiment, with the keys and settings that `iada experiment` writes."""
    plain = four_rows()
    ablations = {
        "architectures": [
            make_row(name, system | {"model.architecture": "gtrans"}, (25.0, 25.5, 26.0))
            for name, system in (("GTrans", DOC2DOC), ("GTrans + GNorm", GNORM))
        ],
        "stages": [
            make_row(
                "GTrans, two stages",
                DOC2DOC | {"model.architecture": "gtrans", "start": "doc2doc, windows.context: 0"},
                breakdown={
                    "cost": {
                        "parameters": (675744.0,) * 3,
                        "updates": (900.0, 1000.0, 1100.0),
                        "minutes": (2.0, 2.0, 5.0),
                    }
                },
            )
        ],
        "directions": [
            make_row(
                f"{name}, context {context}, current {current}",
                system
                | {"augment.context_direction": context, "augment.current_direction": current},
                (24.0, 24.5, 25.0),
            )
            for name, system in (("TNorm", TNORM), ("GNorm", GNORM))
            for context, current in (("down", "up"), ("up", "down"), ("down", "down"), ("up", "up"))
        ],
        "measures": [
            make_row("Random", RANDOM),
            make_row("GNorm, not normalised", GNORM | {"augment.normalize": "none"}),
        ],
        "losses": [
            make_row(f"GNorm − {loss} loss", GNORM | {f"augment.weight_{loss}": 0.0})
            for loss in ("original", "perturbed", "agreement")
        ],
        "bt_ft": [
            make_row(f"{name} + {kind}", system | {"synthetic": kind}, (25.0, 25.5, 26.0))
            for name, system in (("Doc2Doc", DOC2DOC), ("GNorm", GNORM))
            for kind in ("back_translate", "forward_translate")
        ],
    }
    results = [make_results("main", *plain, make_row("BPE-dropout", {"method": "bpe_dropout"}))]
    results += [make_results(name, *plain, *rows) for name, rows in ablations.items()]
    classes = four_rows(
        breakdown=lambda n: {"class": {k: (0.5 + n / 20,) * 3 for k in ("er", "es", "sie")}}
    )
    distances = four_rows(
        breakdown=lambda n: {
            "distance": {k: (0.4, 0.5 + n / 30, 0.6) for k in ("0", "1", "2", "3", ">3")}
        }
    )
    tags = ("NOUN", "PRON", "VERB", "ADJ", "ADV")
    shares = four_rows(
        pos=lambda n: {
            "context": {tag: (0.15 - n / 100,) * 3 for tag in tags},
            "current": {tag: (0.15 + n / 100,) * 3 for tag in tags},
        }
    )[1:]
    results += [
        make_results("pronouns", *classes),
        make_results("distance", *distances),
        make_results("pos", *shares),
        agreement(),
        low_resource(),
        make_results(
            "noisy_context",
            *plain,
            *(
                make_row(
                    f"{row.label}, noisy context",
                    {**row.settings, "windows.noisy_context": 2},
                    (18.0, 19.0, 20.0),
                    series="Noisy context",
                )
                for row in plain
            ),
        ),
        alpha_sweep(),
        controls(),
    ]
    return results


def agreement() -> Results:
    breakdown = {
        "rank_source": {"tnorm gnorm": (-0.2, -0.3, -0.1)},
        "rank_target": {"tnorm gnorm": (0.1, 0.1, 0.1), "gnorm p_cxmi": (0.5, 0.25, 0.75)},
        "tags": {"gnorm NOUN": (1.0, 1.0, 1.0), "tnorm NOUN": (0.5, 0.5, 0.5)},
        "hinges": {"p_cxmi": (0.9, 0.8, 1.0), "gnorm": (0.5, 0.5, 0.5)},
    }
    rows = (make_row("Doc2Doc", DOC2DOC, breakdown=breakdown), make_row("GNorm", GNORM))
    return make_results("agreement", *rows)


def low_resource() -> Results:
    rows = [
        make_row(
            f"{row.label}, {share:.0%} of the documents",
            {**row.settings, "data.subset": share},
            tuple(20 * share + value for value in row.metrics["s_bleu"]),
            series=row.label,
            value=share,
        )
        for share in (0.2, 0.5, 1.0)
        for row in four_rows()
    ]
    return make_results("low_resource", *rows, axis=Axis("data.subset", (0.2, 0.5, 1.0)))


def alpha_sweep() -> Results:
    rows = [
        make_row(
            f"α = {alpha:g}",
            GNORM | {"augment.alpha": alpha},
            (20.0 + alpha, 20.5 - alpha, 21.0 + alpha),
            series="IADA (Repl, GNorm)",
            value=alpha,
        )
        for alpha in (0.0, 0.1, 0.3, 1.0)
    ]
    return make_results("alpha_sweep", *rows, axis=Axis("augment.alpha", (0.0, 0.1, 0.3, 1.0)))


def controls(gain: Sequence[float] = (0.9, 1.0, 1.1)) -> Results:
    """The uniform control gains 2 points over Doc2Doc, and IADA `gain` over the control."""
    uniform = (22.0, 23.0, 24.0)
    return make_results(
        "controls",
        make_row("Doc2Doc", DOC2DOC, (20.0, 21.0, 22.0)),
        make_row("R-Drop", {"method": "r_drop"}, (21.0, 22.0, 23.0)),
        make_row("Uniform (Repl, all losses)", UNIFORM, uniform),
        make_row("IADA (Repl, Random)", RANDOM, uniform),
        make_row(
            "IADA (Repl, GNorm)",
            GNORM,
            tuple(u + g for u, g in zip(uniform, gain, strict=True)),
        ),
        baseline="Uniform (Repl, all losses)",
    )


@pytest.fixture
def new_controls() -> Callable[..., Results]:
    return controls


@pytest.fixture
def every_result() -> list[Results]:
    return all_results()


@pytest.fixture
def experiment_folder(tmp_path: Path) -> Path:
    """All experiments on one corpus, as `iada experiment all` leaves them; without the runs."""
    for results in all_results():
        folder = tmp_path / "experiments" / results.data / results.experiment
        folder.mkdir(parents=True)
        write_results(folder / "results.json", results)
    return tmp_path / "experiments"
