"""Collection: scores find their rows and seeds, tests compare like with like, gaps are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.analysis.parts_of_speech import SHARES_FILE
from iada.config.experiment import ExperimentConfig
from iada.experiments.collection import collect
from iada.experiments.definitions import build_experiment
from iada.experiments.grid import Base, Grid, build_grid, open_base
from iada.experiments.plan import Experiment, Ranges, System
from iada.experiments.results import read_results, write_results
from iada.report.views import results_markdown

SEEDS = (3, 4)
RECIPE = """
data: {{folder: {corpus}}}
subwords: {{vocabulary_size: 450}}
windows: {{max_length: 128}}
model:
  {{dim: 32, feed_forward: 64, heads: 2, encoder_layers: 1, decoder_layers: 1, max_positions: 160}}
train: {{max_tokens: 1024, max_updates: 60, validate_every: 60}}
evaluate: {{resamples: 200}}
"""


@pytest.fixture
def base(tmp_path: Path, mini_corpus: Path) -> Base:
    recipe = tmp_path / "own.yaml"
    recipe.write_text(RECIPE.format(corpus=mini_corpus), encoding="utf-8")
    return open_base(
        ExperimentConfig(
            names=("all",),
            data=str(recipe),
            output=tmp_path / "out",
            contrastive=mini_corpus / "contrastive.json",
        )
    )


def planned(base: Base, name: str, *keys: str) -> tuple[Experiment, Grid]:
    experiment = build_experiment(name, Ranges((0.2, 1.0), (0.0, 1.0)))
    rows = tuple(row for row in experiment.rows if not keys or row.key in keys)
    experiment = replace(experiment, rows=rows)
    return experiment, build_grid(base, [experiment], SEEDS)


def test_every_score_stands_in_its_row_and_seed(base: Base, finish: Any) -> None:
    keys = ["sentence_level", "doc2doc", "word_drop", "word_replace"]
    experiment, grid = planned(base, "main", *keys)
    plain, sentence = System("doc2doc"), System("doc2doc", (("windows.context", 0),))
    systems = [plain, System("word_drop"), sentence, System("word_replace")]
    for number, system in enumerate(systems):
        for seed in SEEDS:
            # All translate like the reference, but word_drop and one seed of word_replace.
            finish(
                grid.jobs[system, seed],
                bleu=10.0 * number + seed,
                correct=number + seed,
                nll=float(seed),
                wrong_lines=60 if number == 1 or (number == 3 and seed == 3) else 0,
            )
    folder = base.root / "main"
    results = collect(experiment, grid, base, SEEDS, folder)
    assert [row.key for row in results.rows] == keys
    assert (results.baseline, results.seeds, results.missing) == ("doc2doc", SEEDS, ())
    row = results.row("word_drop")
    assert row.metrics == {
        "s_bleu": (13.0, 14.0),
        "d_bleu": (14.0, 15.0),
        "chrf": (15.0, 16.0),
        "pronouns": (0.4, 0.5),
        "pronouns_needing_context": (0.6, 0.8),
        "dev_nll": (3.0, 4.0),
    }
    assert row.settings == {"method": "word_drop"}
    assert results.row("sentence_level").settings == {"method": "doc2doc", "windows.context": 0}
    for seed, run in zip(SEEDS, row.runs, strict=True):
        assert (folder / run).resolve() == grid.jobs[System("word_drop"), seed].folder.resolve()
    cost = row.breakdown["cost"]
    assert (cost["updates"], cost["minutes"]) == ((3.0, 3.0), (1.5, 1.5))
    assert cost["parameters"] == (float(results.base["parameters"]),) * 2
    assert row.breakdown.keys() == {"class", "distance", "cost"}
    assert not row.pos
    assert results.axis is None

    assert results.row("doc2doc").significance == {}
    for metric, unit in (("s_bleu", "sentence"), ("d_bleu", "document")):
        found = row.significance[metric]
        assert found.against == "doc2doc"
        assert found.test.endswith(f"ar:200|seed:12345|unit:{unit}")
        # Five of six documents differ, so no p-value of theirs can be below 2 / 2⁵.
        limit = 0.05 if metric == "s_bleu" else 0.12
        assert all(p < limit for p in found.p)
        # The same translation is no evidence.
        assert results.row("sentence_level").significance[metric].p == (1.0, 1.0)
        once, never = results.row("word_replace").significance[metric].p
        assert (once < limit, never) == (True, 1.0)

    assert results.base["vocabulary"] == 450
    assert results.base["context"] == 3
    assert results.base["updates"] == 60
    assert results.base["parameters"] == _parameters(450)
    assert results.base["signatures"] == {
        "s_bleu": "s",
        "d_bleu": "d",
        "chrf": "c",
        "contrastive": "t",
    }
    folder.mkdir()
    assert read_results(write_results(folder / "results.json", results)) == results

    table = results_markdown(results)
    # Scores were written by hand, so the marks follow them and not the translations.
    assert "| WordDrop | 2 | 13.50 ± 0.71 ∗ | 14.50 ± 0.71 | 15.50 ± 0.71 | 70.0 " in table
    assert "| Doc2Doc | 2 | 3.50 ± 0.71 | 4.50 ± 0.71 |" in table
    assert "| WordRepl | 2 | 33.50 ± 0.71 ∗1/2 | 34.50 ± 0.71 |" in table
    assert "| 3.500 ± 0.707 |" in table
    # Three rows and two metrics.
    assert "than Doc2Doc with p ≤ 0.05 after Holm's correction for 6 comparisons in every" in table
    assert "Test: paired approximate randomisation." in table


def _parameters(vocabulary: int) -> int:
    """Count by hand: tied embeddings, one encoder and one decoder layer of width 32 and 64."""
    attention, feed_forward, norm = 4 * (32 * 32 + 32), 2 * 32 * 64 + 64 + 32, 2 * 32
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocabulary * 32 + encoder + decoder


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pronouns", ["62.5 ± 17.7"]),
        ("distance", ["Accuracy in %, by sentences back: >3"]),
        ("controls", ["62.5 ± 17.7", "Accuracy in %, by sentences back: >3"]),
    ],
)
def test_accuracies_are_broken_down(base: Base, finish: Any, name: str, shown: list[str]) -> None:
    experiment, grid = planned(base, name, "doc2doc")
    for seed, correct in zip(SEEDS, (4, 6), strict=True):
        finish(grid.jobs[System("doc2doc"), seed], correct=correct)
    results = collect(experiment, grid, base, SEEDS, base.root / name)
    assert results.rows[0].breakdown == {
        "class": {"er": (0.25, 0.25), "es": (0.5, 0.75)},
        "distance": {"0": (0.5, 0.5), ">3": (0.0, 0.0)},
    }
    table = results_markdown(results)
    assert [words for words in shown if words not in table] == []


def test_curves_know_their_axis_and_compare_at_the_same_place(base: Base, finish: Any) -> None:
    keys = [f"{method}_{share}" for method in ("doc2doc", "word_replace") for share in (20, 100)]
    experiment, grid = planned(base, "low_resource", *keys)
    for (system, _), job in grid.jobs.items():
        few = system.changes == (("data.subset", 0.2),)
        finish(job, wrong_lines=60 if few or system.method == "doc2doc" else 0)
    results = collect(experiment, grid, base, SEEDS, base.root / "low_resource")
    assert results.axis is not None
    assert (results.axis.name, results.axis.values) == ("data.subset", (0.2, 1.0))
    assert results.row("word_replace_20").settings["data.subset"] == 0.2
    assert results.row("word_replace_100").settings == {"method": "word_replace"}
    few, all_of_them = (results.row(f"word_replace_{n}").significance["s_bleu"] for n in (20, 100))
    assert (few.against, all_of_them.against) == ("doc2doc_20", "doc2doc_100")
    # Equal translations on few documents, different ones on all.
    assert few.p == (1.0, 1.0)
    assert all(p < 0.05 for p in all_of_them.p)


def test_rows_without_all_their_runs_are_named_and_left_out(base: Base, finish: Any) -> None:
    experiment, grid = planned(base, "main", "doc2doc", "word_drop")
    finish(grid.jobs[System("doc2doc"), 3])
    for seed in SEEDS:
        finish(grid.jobs[System("word_drop"), seed])
    results = collect(experiment, grid, base, SEEDS, base.root / "main")
    assert [row.key for row in results.rows] == ["word_drop"]
    assert results.missing == ("Doc2Doc",)
    assert results.baseline is None
    assert results.rows[0].significance == {}
    assert "Left out, because a run failed: Doc2Doc." in results_markdown(results)


def test_no_row_at_all_is_no_error(base: Base) -> None:
    experiment, grid = planned(base, "main", "doc2doc")
    results = collect(experiment, grid, base, SEEDS, base.root / "main")
    assert (results.rows, results.missing) == ((), ("Doc2Doc",))
    assert "Doc2Doc" in results_markdown(results)


def test_scores_that_were_not_measured_are_absent(base: Base, finish: Any) -> None:
    base = replace(base, contrastive=None)
    experiment, grid = planned(base, "pronouns", "doc2doc")
    more = {
        "comet": {"score": 80.0, "signature": "model"},
        "cxmi": {"cxmi": 0.5, "signature": "reference"},
    }
    for seed in SEEDS:
        finish(grid.jobs[System("doc2doc"), seed], scores=more)
        scores = grid.jobs[System("doc2doc"), seed].folder / "scores.json"
        content = json.loads(scores.read_text(encoding="utf-8"))
        del content["contrastive"], content["chrf"]
        scores.write_text(json.dumps(content), encoding="utf-8")
    results = collect(experiment, grid, base, SEEDS, base.root / "pronouns")
    assert set(results.rows[0].metrics) == {"s_bleu", "d_bleu", "comet", "cxmi", "dev_nll"}
    assert results.rows[0].metrics["cxmi"] == (0.5, 0.5)
    assert results.rows[0].breakdown == {}
    assert results.base["signatures"]["comet"] == "model"


def test_parts_of_speech_come_from_the_run_folder(base: Base, finish: Any) -> None:
    experiment, grid = planned(base, "pos", "word_replace")
    for seed, nouns in zip(SEEDS, (25.0, 50.0), strict=True):
        job = grid.jobs[System("word_replace"), seed]
        finish(job)
        shares = {"total": 8.0, "NOUN": nouns, "OTHER": 100 - nouns}
        empty = {"total": 0.0, "NOUN": None, "OTHER": None}
        content = {
            "measure": "uniform",
            "context": {"expected": empty if seed == 4 else shares, "sampled": {}},
            "current": {"expected": shares, "sampled": {}},
        }
        (job.folder / SHARES_FILE).write_text(json.dumps(content), encoding="utf-8")
    results = collect(experiment, grid, base, SEEDS, base.root / "pos")
    assert results.rows[0].pos == {
        "context": {"NOUN": (0.25, 0.0), "OTHER": (0.75, 0.0)},
        "current": {"NOUN": (0.25, 0.5), "OTHER": (0.75, 0.5)},
    }
    assert "**Perturbed tokens in the current sentence (" in results_markdown(results)
