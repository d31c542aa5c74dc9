"""A decoder-only model from scratch, on subwords of its own, through every command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from iada.analysis.measure_agreement import measure_agreement
from iada.cli.main import main
from iada.decoding.translator import DocumentTranslator
from iada.experiments.results import read_results
from iada.method.importance import MEASURES

UPDATES, EVERY = 20, 10


@pytest.fixture
def recipe(write_toy_recipe: Callable[[int, int], Path], tmp_path: Path) -> Path:
    path = write_toy_recipe(UPDATES, EVERY)
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["output"] = str(tmp_path / "run")
    settings["windows"] = {"max_length": 256, "context": 2, "loss_on": "all"}
    settings["model"] |= {"architecture": "causal", "dropout": 0.1}
    settings["train"] |= {"learning_rate": 0.01, "keep_checkpoints": 5, "log_every": 5}
    settings["decode"] |= {"beam": 2, "max_length_ratio": 0.5, "max_length_offset": 2}
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def _run(*arguments: str | Path) -> None:
    assert main([str(argument) for argument in arguments]) in (0, None)


def test_every_command_takes_a_decoder_only_run(
    recipe: Path, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    _run("train", recipe)
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(line)["dev_nll"] for line in lines if "dev_nll" in line]
    assert losses[-1] < losses[0]
    assert type(AutoModelForCausalLM.from_pretrained(run / "model")) is LlamaForCausalLM
    assert DocumentTranslator.load(run).engine.name == "causal"
    _run("translate", run)
    translated = (run / "translations" / "test.de").read_text(encoding="utf-8").split("\n")
    assert len(translated) == len((mini_corpus / "test.en").read_text("utf-8").split("\n"))
    _run("evaluate", run)
    _run("contrast", run, mini_corpus / "contrastive.json")
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert {"s_bleu", "contrastive"} <= {*scores}
    capsys.readouterr()
    _run("inspect", run, "--html", tmp_path / "map.html")
    shown = capsys.readouterr().out
    # Each side alone, its sentences apart.
    assert "<sep>" in shown
    _run("inspect", run, "--pos", "--tagger", "gold")
    shares = json.loads(capsys.readouterr().out)
    assert shares["unaligned"] == 0
    # Every sentence is the current one of a window, and its tokens are counted under their tags.
    lines = (mini_corpus / "test.en").read_text(encoding="utf-8").split("\n")
    encoded = DocumentTranslator.load(run).subwords.encode([line for line in lines if line])
    assert shares["current"]["tokens"]["total"] == sum(map(len, encoded))
    assert shares["current"]["tokens"]["PRON"] > 2
    answers = measure_agreement(run, mini_corpus / "contrastive.json")
    # Its sides cannot be read without each other, so nothing can be taken away from one.
    assert {"gnorm", "tnorm", "surprisal"} <= {*answers["hinges"]} <= {*MEASURES} - {"p_cxmi"}
    _run("augment", run, "--output", tmp_path / "copies", "--split", "dev")
    originals = [(mini_corpus / f"dev.{side}").read_text(encoding="utf-8") for side in ("en", "de")]
    copies = [
        (tmp_path / "copies" / f"dev.1.{side}").read_text(encoding="utf-8") for side in ("en", "de")
    ]
    # Only the source is perturbed: other toolkits would learn a perturbed target as labels.
    assert [copy == one for copy, one in zip(copies, originals, strict=True)] == [False, True]
    _run("report", run, "--output", tmp_path / "report.html")

    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / f"checkpoint-{UPDATES}")
    _run("train", recipe, "--resume", "--output", killed)
    weights = [(one / "model" / "model.safetensors").read_bytes() for one in (run, killed)]
    assert weights[0] == weights[1]


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_an_experiment_compares_decoder_only_systems(
    recipe: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    settings = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    settings["train"] |= {"max_updates": 4, "validate_every": 2}
    recipe.write_text(yaml.safe_dump(settings), encoding="utf-8")
    contrastive = mini_corpus / "contrastive.json"
    arguments = ("--data", recipe, "--output", tmp_path / "out", "--contrastive", contrastive)
    rows = ("--rows", "doc2doc", "iada_replace_gnorm", "--jobs", "1")
    _run("experiment", "main", *arguments, *rows)
    results = read_results(tmp_path / "out" / f"{tmp_path.name}-toy" / "main")
    assert [row.key for row in results.rows] == ["doc2doc", "iada_replace_gnorm"]
