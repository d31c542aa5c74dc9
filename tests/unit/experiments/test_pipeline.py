"""Jobs: what counts as finished, what is left to do, and what a false start leaves."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.config.run import mini_run
from iada.errors import RunError
from iada.evaluation import score_runs
from iada.experiments.scheduler import Failure, Job, describe_failures


@pytest.fixture
def job(tmp_path: Path, mini_corpus: Path) -> Job:
    config = mini_run("doc2doc", corpus=mini_corpus, output=tmp_path / "run", updates=2)
    return Job(config, mini_corpus / "contrastive.json")


def write_scores(job: Job, content: object) -> None:
    job.folder.mkdir(exist_ok=True)
    (job.folder / "scores.json").write_text(json.dumps(content), encoding="utf-8")


def test_a_job_is_finished_when_it_has_what_it_asks_for(job: Job) -> None:
    assert not job.is_finished()
    plain = replace(job, contrastive_set=None)
    write_scores(job, {"contrastive": {"set": "contrastive.json"}})
    assert not job.is_finished()
    write_scores(job, {"s_bleu": {}})
    assert plain.is_finished()
    assert not job.is_finished()
    write_scores(job, {"s_bleu": {}, "contrastive": {"set": "another.json"}})
    assert not job.is_finished()
    write_scores(job, {"s_bleu": {}, "contrastive": {"set": "contrastive.json"}})
    assert job.is_finished()
    evaluate = EvaluateConfig(comet_python=Path("python"), comet_model=Path("model"))
    with_comet = replace(plain, comet=evaluate)
    assert not with_comet.is_finished()
    # The key of a recipe or run folder starts nothing.
    named = replace(plain, config=replace(plain.config, evaluate=evaluate))
    assert named.is_finished()
    write_scores(job, {"s_bleu": {}, "comet": {}})
    assert with_comet.is_finished()
    with_cxmi = replace(plain, cxmi=True)
    assert not with_cxmi.is_finished()
    write_scores(job, {"s_bleu": {}, "cxmi": {}})
    assert with_cxmi.is_finished()


def test_a_run_that_only_makes_data_is_finished_when_it_is_trained(job: Job) -> None:
    translator = replace(job, is_scored=False)
    assert not translator.is_finished()
    (job.folder / "model").mkdir(parents=True)
    (job.folder / "model" / "config.json").write_text("{}", encoding="utf-8")
    assert translator.is_finished()
    assert not job.is_finished()
    # Nothing is left to do, and nothing is: no scores appear.
    translator.run()
    assert not (job.folder / "scores.json").exists()


def test_damaged_scores_are_named(job: Job) -> None:
    job.folder.mkdir()
    (job.folder / "scores.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"scores\.json is not valid JSON\. Remove it"):
        job.is_finished()


def test_a_start_that_was_killed_before_the_run_began_is_no_obstacle(job: Job) -> None:
    job.folder.mkdir()
    for name in (".config.yaml.123", ".environment.json.123", "environment.json"):
        (job.folder / name).write_text("cut", encoding="utf-8")
    translator = replace(job, is_scored=False)
    translator.run()
    assert translator.is_finished()
    assert not [path for path in job.folder.iterdir() if path.name.endswith(".123")]
    assert json.loads((job.folder / "environment.json").read_text(encoding="utf-8"))["data"]


def test_what_was_measured_is_not_measured_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run()
    before = json.loads((job.folder / "scores.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(score_runs, "contrast_run", None)
    more = replace(job, cxmi=True)
    more.run()
    after = json.loads((job.folder / "scores.json").read_text(encoding="utf-8"))
    assert after.keys() - before.keys() == {"cxmi"}
    monkeypatch.setattr(score_runs, "measure_context_use", None)
    more.run()
    # Scores of another model do not count.
    (job.folder / "model").rename(job.folder.with_name("old"))
    with pytest.raises(TypeError, match="not callable"):
        more.run()


def test_a_folder_of_somebody_else_is_left_alone(job: Job) -> None:
    job.folder.mkdir()
    (job.folder / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="already holds files"):
        job.run()
    assert [path.name for path in job.folder.iterdir()] == ["thesis.txt"]


def test_progress_is_the_last_line_of_the_metrics(job: Job) -> None:
    assert job.updates_done() == 0
    job.folder.mkdir()
    (job.folder / "metrics.jsonl").write_text('{"update": 1}\n{"update": 7}\n', encoding="utf-8")
    assert job.updates_done() == 7
    (job.folder / "metrics.jsonl").write_text('{"update": 1}\n{"upd', encoding="utf-8")
    assert job.updates_done() == 0


@pytest.mark.parametrize(
    ("method", "cost"),
    [
        ("doc2doc", 2),
        ("word_replace", 2),
        ("r_drop", 4),
        ("iada_drop_tnorm", 4),
        ("iada_drop_gnorm", 5),
    ],
)
def test_costs_are_ordered_by_passes(method: str, cost: int) -> None:
    config = mini_run(method, corpus=Path("corpus"), output=Path("run"))  # type: ignore[arg-type]
    assert Job(config).cost == cost


def test_failures_are_listed_with_their_logs() -> None:
    failures = [Failure(Path("runs/a"), "broke.", Path("runs/a.log")), Failure(Path("b"), "never.")]
    assert describe_failures(failures, 5) == (
        "2 of 5 tasks failed; the others are done and kept.\n"
        "  runs/a: broke. Its messages are in runs/a.log.\n"
        "  b: never.\n"
        "Remove the cause and give the same command again."
    )
