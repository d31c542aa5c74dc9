import json
import logging
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback
from transformers.integrations import integration_utils

import iada
from iada.cli.main import main
from iada.config.base import to_mapping, write_yaml
from iada.config.method import Method, augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig, mini_run
from iada.config.train import RichConfig
from iada.data.tokens.subwords import Subwords
from iada.errors import ConfigError, RunError
from iada.evaluation.score_runs import measure_context_use
from iada.method.perturbation import Drop, Vocabulary, Zero, make_replacement
from iada.runs.corpus import load_corpus
from iada.training.callbacks import MetricsFile, _describe_seconds
from iada.training.train import describe_plan, train
from iada.training.trainer import inverse_square_root

TinyRun = Callable[..., RunConfig]
TINY = ModelConfig(
    dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0
)


def _config(corpus: Path, output: Path) -> RunConfig:
    config = mini_run("doc2doc", corpus=corpus, output=output, updates=12)
    return replace(config, model=TINY)


def _updates(output: Path, key: str) -> list[int]:
    lines = (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["update"] for line in lines if key in json.loads(line)]


def test_training_stops_after_patience_validations_without_a_better_nll(
    mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    # Nothing is ever 100 nats better: the first validation is the best, three more are allowed.
    settings = replace(config.train, validate_every=1, patience=3, min_delta=100.0)
    train(replace(config, train=settings))
    assert _updates(tmp_path / "run", "dev_nll") == [1, 2, 3, 4]


def test_without_patience_training_runs_to_the_last_update(
    mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    settings = replace(config.train, validate_every=4, patience=0, min_delta=100.0, log_every=5)
    train(replace(config, train=settings))
    assert _updates(tmp_path / "run", "dev_nll") == [4, 8, 12]
    assert _updates(tmp_path / "run", "learning_rate") == [1, 5, 10]


def test_the_run_folder_holds_what_is_needed_to_repeat_the_run(trained_run: Path) -> None:
    names = {path.name for path in trained_run.iterdir()}
    assert {"config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "model"} <= names
    environment = json.loads((trained_run / "environment.json").read_text(encoding="utf-8"))
    assert set(environment["data"]["files"]) == {"train", "dev", "test"}
    assert not list((trained_run / "model").glob("*.bin"))


def test_the_plan_tells_sizes_and_touches_nothing(mini_corpus: Path, tmp_path: Path) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    plan = dict(line.split("  ", 1) for line in describe_plan(config).splitlines())
    assert plan["training documents"].strip() == "30"
    assert plan["updates at most"].strip() == "12"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "changes", "expected"),
    [
        ("word_drop", {}, Drop(5)),
        ("word_drop", {"drop": "zero"}, Zero()),
        ("iada_drop_tnorm", {"drop": "zero"}, Zero()),
    ],
)
def test_what_a_dropped_token_leaves_is_configured(
    method: Method, changes: dict[str, Any], expected: object, subwords: Subwords
) -> None:
    config = replace(augmentation(method), **changes)
    assert make_replacement(config, Vocabulary.of_tokenizer(subwords)) == expected


def test_a_run_says_how_many_windows_kept_plain_sentences(
    mini_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    config = replace(
        config,
        augment=replace(augmentation("bpe_dropout"), bpe_dropout=1.0),
        train=replace(config.train, max_updates=2, validate_every=2),
    )
    with caplog.at_level(logging.INFO, logger="iada"):
        train(config)
    (line,) = (text for text in caplog.messages if "drawn with BPE-dropout" in text)
    held, drawn = map(int, re.findall(r"\d+", line))
    # Two batches: characters fill the windows of this configuration to the limit.
    assert 0 < held <= drawn < 60


def test_metrics_after_the_checkpoint_are_dropped_when_a_run_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = ['{"update": 1, "seconds": 5.0}', '{"update": 2, "seconds": 9.0}', '{"upda']
    path.write_bytes("\n".join(lines).encode() + b"\xff\n" + b"[" * 9999)

    class State:
        is_world_process_zero = True
        global_step = 1
        epoch = 0.5

    callback = MetricsFile(path)
    callback.on_train_begin(None, State(), None)
    assert path.read_text(encoding="utf-8") == lines[0] + "\n"
    callback.on_log(None, State(), None, logs={"eval_nll": 2.5, "total_flos": 1.0})
    record = json.loads(path.read_text(encoding="utf-8").splitlines()[1])
    assert record["dev_nll"] == 2.5
    # The clock goes on from the last line that was kept.
    assert 5.0 <= record["seconds"] < 6.0
    assert "total_flos" not in record


def test_metrics_are_json_or_not_written(tmp_path: Path) -> None:
    class State:
        is_world_process_zero = True
        global_step = 1
        epoch = 0.5

    with pytest.raises(ValueError, match="not JSON compliant"):
        MetricsFile(tmp_path / "m").on_log(None, State(), None, logs={"loss": float("nan")})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("update", "expected"), [(1, 0.00025), (2000, 0.5), (4000, 1.0), (16000, 0.5)]
)
def test_the_papers_schedule(update: int, expected: float) -> None:
    assert inverse_square_root(update, 4000) == pytest.approx(expected)


def test_a_schedule_without_warm_up_begins_at_the_peak() -> None:
    assert inverse_square_root(1, 0) == 1.0
    assert inverse_square_root(4, 0) == 0.5


def test_without_a_terminal_every_logging_interval_is_one_line(
    mini_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    settings = replace(config.train, max_updates=4, validate_every=4, log_every=2)
    with caplog.at_level(logging.INFO, logger="iada"):
        train(replace(config, train=settings))
    expected = [
        r"doc2doc: training on the CPU \(1 threads\), from update 0 to at most 4",
        r"doc2doc: update 1/4, loss \d+\.\d{3}, [\d,]+ loss tokens/s, \d+ s left",
        r"doc2doc: update 2/4, loss \d+\.\d{3}, [\d,]+ loss tokens/s, \d+ s left",
        r"doc2doc: update 4/4, loss \d+\.\d{3}, [\d,]+ loss tokens/s, 0 s left",
        r"doc2doc: update 4/4, dev NLL \d+\.\d{3}",
        r"Model saved in .*/run/model",
    ]
    assert len(caplog.messages) == len(expected)
    for line, pattern in zip(caplog.messages, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_on_a_terminal_a_bar_takes_the_place_of_lines(
    mini_corpus: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with caplog.at_level(logging.INFO, logger="iada"):
        train(replace(config, train=replace(config.train, max_updates=2, validate_every=2)))
    assert not [line for line in caplog.messages if "loss tokens/s" in line]
    assert "doc2doc: 100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (7200, "2.0 h")]
)
def test_the_time_left_has_a_fitting_unit(seconds: float, shown: str) -> None:
    assert _describe_seconds(seconds) == shown


def test_a_diverging_run_is_one_line_exit_code_2_and_no_model(
    mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(mini_corpus, tmp_path / "run")
    settings = replace(
        config.train, learning_rate=1e30, warmup_updates=0, max_updates=50, log_every=1000
    )
    recipe = tmp_path / "recipe.yaml"
    write_yaml(recipe, to_mapping(replace(config, train=settings)))
    assert main(["train", str(recipe)]) == 2
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line[:6] == "error:")
    assert "not finite after update" in error
    assert not (tmp_path / "run" / "model").exists()
    assert not list(tmp_path.glob("run/checkpoints/*"))
    for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_callbacks_from_python_see_the_training(tiny_run: TinyRun) -> None:
    class Note(TrainerCallback):
        def __init__(self) -> None:
            self.updates: list[int] = []

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.updates.append(state.global_step)
            control.should_training_stop = state.global_step == 3

    note = Note()
    config = tiny_run()
    recipe = config.output.parent / "recipe.yaml"
    write_yaml(recipe, to_mapping(config))
    folder = iada.train(recipe, callbacks=[note])
    assert folder.path == config.output
    assert note.updates == [1, 2, 3]


def test_a_tracker_gets_the_log(tiny_run: TinyRun) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny_run(report_to=("tensorboard",), max_updates=4)
    folder = train(config)
    events = EventAccumulator(str(folder.path / "tensorboard"))
    events.Reload()
    tracked = [event.step for event in events.Scalars("eval/nll")]
    assert tracked == _updates(folder.path, "dev_nll") == [2, 4]
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("wandb", "requires wandb to be installed"), ("notebook", "notebook is not supported")],
)
def test_a_tracker_that_cannot_be_used_is_refused_before_anything_is_written(
    name: str, reason: str, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: False)
    config = tiny_run(report_to=(name,))
    with pytest.raises(ConfigError, match=f"`train.report_to` names '{name}'.*{reason}"):
        train(config)
    assert not config.output.exists()


def test_importance_is_inspected_from_python(trained_run: Path, mini_corpus: Path) -> None:
    views = iada.inspect(trained_run, alpha=0.0)
    first = iada.read_documents(mini_corpus / "test.en", mini_corpus / "test.de")[0]
    assert [view.sentence for view in views] == list(range(1, len(first.source) + 1))
    # Without spread every word is as likely to be replaced as any other.
    chances = {token.probability for token in views[0].source if token.role != iada.Role.SPECIAL}
    assert len(chances) == 1


def test_context_rich_windows_are_selected_or_weighted_by_the_scores_of_another_run(
    trained_run: Path,
    mini_corpus: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scorer = shutil.copytree(trained_run, tmp_path / "scorer")
    before = (scorer / "scores.json").is_file()
    measure_context_use(scorer, split="train")
    assert (scorer / "scores.json").is_file() == before
    config = _config(mini_corpus, tmp_path / "run")
    windows = len(load_corpus(config).train)
    rich = RichConfig(scores=scorer / "cxmi.train.jsonl", share=0.25)
    losses: dict[str, Any] = {}
    for use in ("select", "weight"):
        settings = replace(config.train, max_updates=2, rich=replace(rich, use=use), log_every=1)
        changed = replace(config, output=tmp_path / use, train=settings)
        with caplog.at_level(logging.INFO):
            train(changed)
        assert f"{round(windows / 4)} of {windows} training windows" in caplog.text
        record = json.loads((tmp_path / use / "environment.json").read_text(encoding="utf-8"))
        assert len(record["data"]["rich"]) == 64
        lines = (tmp_path / use / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses[use] = json.loads(lines[0])
    assert losses["select"]["loss"] == pytest.approx(losses["select"]["original"])
    assert losses["weight"]["loss"] > losses["weight"]["original"]
    plan = dict(line.split("  ", 1) for line in describe_plan(changed).splitlines())
    selecting = replace(changed, train=replace(settings, rich=replace(rich, use="select")))
    fewer = dict(line.split("  ", 1) for line in describe_plan(selecting).splitlines())
    batches = "micro-batches per epoch"
    assert int(fewer[batches]) < int(plan[batches])
    # Other scores would select other windows in the middle of a run.
    rows = (scorer / "cxmi.train.jsonl").read_text(encoding="utf-8").splitlines()
    turned = (json.loads(row) for row in rows)
    negated = [row | {"p_cxmi": [-value for value in row["p_cxmi"]]} for row in turned]
    (scorer / "cxmi.train.jsonl").write_text("\n".join(map(json.dumps, negated)) + "\n")
    longer = replace(changed, train=replace(settings, max_updates=4))
    with pytest.raises(RunError, match="sha256 of the rich windows: was"):
        train(longer, resume=True)
