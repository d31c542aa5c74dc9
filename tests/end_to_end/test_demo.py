"""The demonstration from one command to its report, at toy size."""

from pathlib import Path

import pytest

from iada.cli import demo
from iada.cli.main import main
from iada.config.run import mini_run
from iada.data.mini import MiniConfig
from iada.experiments.scheduler import Job

TOY = [
    "--corpus.train_documents=12",
    "--corpus.dev_documents=3",
    "--corpus.test_documents=2",
    "--corpus.contrastive_per_cell=1",
    "--updates=3",
]


def test_the_demo_trains_scores_and_reports_and_does_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "demo"
    command = ["demo", f"--output={output}", "--methods", "iada_replace_gnorm", *TOY]
    assert main([*command, "--with_sentence_baseline"]) == 0
    first = capsys.readouterr().out
    assert "IADA (Repl, GNorm)" in first
    assert "Sentence-level" in first
    page = (output / "report.html").read_text(encoding="utf-8")
    for heading in ("Results", "Pronouns", "Token importance", "Training"):
        assert heading in page
    # An untrained model never ends a sentence, and that is said where it can be read.
    messages = (output / "iada_replace_gnorm-1.log").read_text(encoding="utf-8")
    assert "reached the length limit" in messages
    weights = output / "iada_replace_gnorm-1" / "model" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert main([*command, "--with_sentence_baseline"]) == 0
    assert "IADA (Repl, GNorm)" in capsys.readouterr().out
    assert weights.stat().st_mtime_ns == written


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", f"--output={tmp_path / 'demo'}", "--seeds", "1", "2", "--dry_run"]) == 0
    assert "6 runs" in capsys.readouterr().out
    assert not (tmp_path / "demo").exists()


def test_the_costliest_runs_come_first() -> None:
    jobs = demo.plan(demo.DemoConfig(), Path("corpus"))
    assert [job.config.method for job in jobs] == ["iada_replace_gnorm", "doc2doc", "word_replace"]


def test_an_interrupted_job_resumes(mini_corpus: Path, tmp_path: Path) -> None:
    config = mini_run("doc2doc", corpus=mini_corpus, output=tmp_path / "run", updates=2)
    job = Job(config, mini_corpus / "contrastive.json")
    assert not job.is_finished()
    job.run()
    assert job.is_finished()
    (tmp_path / "run" / "scores.json").unlink()
    weights = tmp_path / "run" / "model" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert not job.is_finished()
    job.run()
    assert job.is_finished()
    # Scored again, not trained again.
    assert weights.stat().st_mtime_ns == written


def test_the_demo_uses_the_scarce_corpus_without_shared_sentences() -> None:
    corpus = demo.DemoConfig().corpus
    assert corpus == MiniConfig()
    assert (corpus.version, corpus.size) == (2, "scarce")


def test_the_first_version_of_the_corpus_can_be_chosen() -> None:
    config = demo.parse(["--corpus.version", "1", "--corpus.size", "plentiful"])
    assert config.corpus == MiniConfig(version=1, size="plentiful")
    assert config.corpus.counts()["train_documents"] == 540


def test_the_size_of_the_corpus_decides_whether_runs_may_stop_early() -> None:
    patience = {}
    for size in ("scarce", "plentiful"):
        config = demo.parse(["--corpus.size", size])
        (patience[size],) = {job.config.train.patience for job in demo.plan(config, Path("corpus"))}
    assert patience["scarce"] > patience["plentiful"] == 0


def test_version_and_size_of_the_corpus_decide_how_long_to_train() -> None:
    updates = {}
    for version, size in (("2", "scarce"), ("2", "plentiful"), ("1", "plentiful")):
        config = demo.parse(["--corpus.version", version, "--corpus.size", size])
        jobs = demo.plan(config, Path("corpus"))
        (updates[version, size],) = {job.config.train.max_updates for job in jobs}
    assert list(updates.values()) == [1500, 2400, 1000]
