"""Every family through the commands: train, translate, evaluate, contrast, inspect, resume."""

import json
import logging
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.warm_processes import WarmProcess
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from iada.cli.main import main
from iada.config.run import RunConfig, load_run_config
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError
from iada.runs.corpus import load_corpus
from iada.training.train import train

CAUSAL = ("llama", "qwen", "gemma")
FAMILIES = ("marian", "mbart", "mbart50", "m2m100", "nllb", "t5", "bart", *CAUSAL)
every_family = pytest.mark.parametrize("family", FAMILIES)
Checkpoint = Callable[[str], Path]
UPDATES, EVERY = 20, 10


def _recipe(folder: Path, corpus: Path, checkpoint: Path, **changes: dict[str, Any]) -> Path:
    recipe: dict[str, Any] = {
        "output": str(folder / "run"),
        "method": "iada_replace_gnorm",
        "data": {"folder": str(corpus)},
        "windows": {"max_length": 200, "context": 2},
        "model": {"pretrained": str(checkpoint)},
        "train": {
            "max_tokens": 1024,
            "accumulation": 1,
            "warmup_updates": 2,
            "learning_rate": 0.003,
            "max_updates": UPDATES,
            "validate_every": EVERY,
            "keep_checkpoints": 5,
            "log_every": 5,
        },
        "decode": {"beam": 1, "max_length_ratio": 0.5, "max_length_offset": 2},
        "evaluate": {"resamples": 20},
    }
    for key, value in changes.items():
        recipe[key] = recipe.get(key, {}) | value if isinstance(value, dict) else value
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def _weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def _run(*arguments: str | Path) -> None:
    assert main([str(argument) for argument in arguments]) in (0, None)


@every_family
def test_a_checkpoint_is_fine_tuned_and_used_by_every_command(
    family: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    # One sequence holds both sides and the template.
    windows = {"max_length": 400 if family in CAUSAL else 200}
    recipe = _recipe(tmp_path, mini_corpus, checkpoint(family), windows=windows)
    _run("train", recipe)
    losses = [
        record["dev_nll"]
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        if "dev_nll" in (record := json.loads(line))
    ]
    assert len(losses) == UPDATES // EVERY
    assert losses[-1] < losses[0]

    _run("translate", run)
    translated = (run / "translations" / "test.de").read_text(encoding="utf-8").split("\n")
    assert len(translated) == len((mini_corpus / "test.en").read_text("utf-8").split("\n"))
    _run("evaluate", run)
    _run("contrast", run, mini_corpus / "contrastive.json")
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert {"s_bleu", "contrastive"} <= {*scores}
    _run("inspect", run, "--html", tmp_path / "map.html")
    assert "<html" in (tmp_path / "map.html").read_text(encoding="utf-8")

    # What a run leaves that was killed after its first checkpoint goes on to the same weights.
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / f"checkpoint-{UPDATES}")
    _run("train", recipe, "--resume", "--output", killed)
    assert _weights(killed) == _weights(run)

    # Transformers alone can load what was trained.
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    assert len(tokenizer("A lamp.")["input_ids"]) > 2
    kind = AutoModelForCausalLM if family in CAUSAL else AutoModelForSeq2SeqLM
    kind.from_pretrained(run / "model")


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_very_same_weights(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    recipe = _recipe(tmp_path, mini_corpus, checkpoint("m2m100"), train={"validate_every": 4})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _run("train", recipe, "--output", whole)
    process = WarmProcess(["-m", "iada", "train", str(recipe), "--output", str(killed)])
    deadline = time.monotonic() + 120
    while not (killed / "checkpoints" / "checkpoint-8").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (killed / "model").exists()
    _run("train", recipe, "--resume", "--output", killed)
    assert _weights(killed) == _weights(whole)


@pytest.mark.parametrize("family", ["marian", "nllb", "qwen"])
def test_a_prepared_corpus_serves_the_same_windows(
    family: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    prepared = tmp_path / "prepared"
    recipe = _recipe(tmp_path, mini_corpus, checkpoint(family))
    _run("prepare", recipe, "--data.prepared", prepared, "--workers", "1")
    plain = load_run_config(recipe)
    with_store = load_run_config(
        _recipe(tmp_path, mini_corpus, checkpoint(family), data={"prepared": str(prepared)})
    )
    own, mapped = load_corpus(plain).train, load_corpus(with_store).train
    assert len(own) == len(mapped)
    keys = [(0, number) for number in range(len(own))]
    expected, found = own.__getitems__(keys), mapped.__getitems__(keys)
    assert expected.source_ids.tolist() == found.source_ids.tolist()
    assert expected.labels.tolist() == found.labels.tolist()


def test_a_prepared_corpus_of_another_tokenizer_is_refused(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = tmp_path / "prepared"
    _run(
        "prepare",
        _recipe(tmp_path, mini_corpus, checkpoint("marian")),
        *("--data.prepared", prepared, "--workers", "1"),
    )
    other = _recipe(tmp_path, mini_corpus, checkpoint("bart"), data={"prepared": str(prepared)})
    assert main(["train", str(other)]) == 2
    assert "model.pretrained is 'tokenizer sha256:" in capsys.readouterr().err


def test_words_are_dropped_as_zeros_where_there_is_no_mask(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "The vocabulary has no mask token: a dropped word is read as a zero vector."
    changes: dict[str, Any] = {
        "method": "iada_drop_tnorm",
        "train": {"max_updates": 2, "validate_every": 2},
    }
    with caplog.at_level(logging.INFO):
        train(_config(tmp_path / "a", mini_corpus, checkpoint("marian"), changes))
    assert caplog.messages.count(said) == 1
    caplog.clear()
    with caplog.at_level(logging.INFO):
        train(_config(tmp_path / "b", mini_corpus, checkpoint("bart"), changes))
    assert said not in caplog.messages


def _config(folder: Path, corpus: Path, checkpoint: Path, changes: dict[str, Any]) -> RunConfig:
    folder.mkdir()
    return load_run_config(_recipe(folder, corpus, checkpoint, **changes))


@pytest.mark.parametrize("family", ["m2m100", "llama"])
def test_copies_of_a_corpus_are_made_with_a_pretrained_model(
    family: str,
    checkpoint: Checkpoint,
    mini_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = {"train": {"max_updates": 2, "validate_every": 2}, "windows": {"max_length": 250}}
    run = train(_config(tmp_path / "a", mini_corpus, checkpoint(family), changes)).path
    output = tmp_path / "copies"
    _run("augment", run, "--output", output, "--split", "dev")
    original = (mini_corpus / "dev.en").read_text(encoding="utf-8").split("\n")
    copy = (output / "dev.1.en").read_text(encoding="utf-8").split("\n")
    assert len(copy) == len(original)
    assert copy != original
    arguments = ["augment", str(run), "--output", str(tmp_path / "dropped")]
    assert main([*arguments, "--augment.replacement", "drop", "--split", "dev"]) == 2
    assert "no mask token to drop words with" in capsys.readouterr().err


def test_a_float16_checkpoint_is_trained_in_float32_and_translated_as_it_is(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    stored = tmp_path / "half"
    shutil.copytree(checkpoint("marian"), stored)
    model = AutoModelForSeq2SeqLM.from_pretrained(stored).to(torch.bfloat16)
    model.save_pretrained(stored)
    translator = DocumentTranslator.from_pretrained(
        stored, source_language="en", target_language="de"
    )
    assert translator.model.dtype == torch.bfloat16
    changes = {"train": {"max_updates": 2, "validate_every": 2}}
    run = train(_config(tmp_path / "a", mini_corpus, stored, changes))
    assert DocumentTranslator.load(run.path).model.dtype == torch.float32


def test_what_a_run_would_do_is_said_without_doing_it(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = _recipe(tmp_path, mini_corpus, checkpoint("t5"))
    _run("train", recipe, "--dry-run")
    plan = capsys.readouterr().out
    assert "512 pieces" in plan
    parameters = AutoModelForSeq2SeqLM.from_pretrained(checkpoint("t5")).num_parameters()
    assert f"{parameters:,}" in plan
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"augment": {"bpe_dropout": 0.1}}, "`augment.bpe_dropout` must be 0 with"),
        ({"subwords": {"tags": ["<bt>"]}}, "`subwords.tags` must be empty with"),
        ({"subwords": {"pretokenize": "moses"}}, "`subwords.pretokenize` must be none with"),
        (
            {"model": {"architecture": "han"}},
            "`model.architecture: han` is built from scratch",
        ),
        ({"model": {"pretrained": None, "target_code": "de"}}, "`model.target_code` must be empty"),
    ],
)
def test_what_needs_an_encoding_of_our_own_is_refused(
    changes: dict[str, Any], message: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    recipe = _recipe(tmp_path, mini_corpus, checkpoint("bart"), **changes)
    with pytest.raises(ConfigError) as error:
        load_run_config(recipe)
    assert message in str(error.value)


def test_windows_that_the_model_cannot_read_are_refused_before_training(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = _recipe(tmp_path, mini_corpus, checkpoint("bart"), windows={"max_length": 512})
    assert main(["train", str(recipe)]) == 2
    message = capsys.readouterr().err
    assert "`windows.max_length` is 512, but" in message
    assert "at most 256 tokens" in message


def test_a_pretrained_run_is_not_exported(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"train": {"max_updates": 2, "validate_every": 2}}
    run = train(_config(tmp_path / "a", mini_corpus, checkpoint("marian"), changes)).path
    assert main(["export", str(run)]) == 2
    assert "ct2-transformers-converter" in capsys.readouterr().err


def test_a_finished_run_is_itself_a_checkpoint_to_start_from(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    train_keys = {"max_updates": 2, "validate_every": 2}
    changes: dict[str, Any] = {"train": train_keys, "windows": {"context": 0}}
    first = train(_config(tmp_path / "a", mini_corpus, checkpoint("nllb"), changes)).path
    second = _config(tmp_path / "b", mini_corpus, first / "model", {"train": train_keys})
    assert second.windows.context == 2
    train(second)
    both = {"train": {"start": str(first)}}
    with pytest.raises(ConfigError, match="both say what a run starts from"):
        _config(tmp_path / "c", mini_corpus, first / "model", both)


def test_a_run_is_resumed_without_the_model_that_it_started_from(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    shutil.copytree(checkpoint("t5"), base)
    changes = {"train": {"max_updates": 4, "validate_every": 2}}
    config = _config(tmp_path / "a", mini_corpus, base, changes)
    run = train(config).path
    weights = _weights(run)
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "checkpoint-4")
    shutil.rmtree(base)
    train(config, resume=True)
    assert _weights(run) == weights
