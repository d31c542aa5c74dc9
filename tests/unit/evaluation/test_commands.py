"""`iada evaluate` and `iada contrast`: JSON on stdout, tables on stderr."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.cli.evaluate import EvaluateCommand, parse, run
from iada.cli.main import main
from iada.config.base import to_mapping, write_yaml
from iada.config.evaluate import EvaluateConfig
from iada.config.run import load_run_config
from iada.errors import ConfigError
from iada.evaluation.score_files import score_files

Capture = pytest.CaptureFixture[str]
COMET = """#!{python}
import json, sys
print(json.dumps(dict(kind="ready", protocol=1, comet="2.2.7")), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    scores = [len(segment["src"]) / 100 for segment in request["segments"]]
    print(json.dumps(dict(kind="scores", id=request["id"], scores=scores)), flush=True)
"""


@pytest.fixture
def worse(mini_corpus: Path, tmp_path: Path) -> Path:
    """Translations with other words here and there."""
    text = (mini_corpus / "test.de").read_text(encoding="utf-8")
    path = tmp_path / "worse.de"
    path.write_text(text.replace(" und ", " oder ").replace("er ", "es "), encoding="utf-8")
    return path


def test_one_file_gives_its_scores_and_tables(
    mini_corpus: Path, worse: Path, capsys: Capture
) -> None:
    reference = mini_corpus / "test.de"
    assert main(["evaluate", "--hypothesis", str(worse), "--reference", str(reference)]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == score_files(worse, reference, boundaries="blank_line")
    assert "worse.de" in shown.err
    assert "Position" in shown.err
    assert "s-BLEU, d-BLEU: nrefs:1|case:mixed" in shown.err


def test_several_files_are_compared_with_the_baseline(
    mini_corpus: Path, worse: Path, tmp_path: Path, capsys: Capture
) -> None:
    reference, copy = mini_corpus / "test.de", tmp_path / "copy.de"
    shutil.copy(worse, copy)
    command = parse(
        [
            "--hypothesis", str(copy), str(reference), "--reference", str(reference),
            "--baseline", str(worse), "--source", str(mini_corpus / "test.en"),
            "--resamples", "30", "--seed", "5", "--lowercase", "--output", str(tmp_path / "s.json"),
        ]
    )  # fmt: skip
    assert run(command) == tmp_path / "s.json"
    shown = capsys.readouterr()
    scores: dict[str, Any] = json.loads(shown.out)
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == scores
    assert list(scores["systems"]) == ["worse.de", "copy.de", "test.de"]
    found = scores["significance"]["s_bleu"]
    assert "case:lc" in found["signature"]
    assert found["signature"].endswith("|ar:30|seed:5|unit:sentence")
    assert found["systems"]["copy.de"]["p_value"] == 1.0
    assert found["systems"]["test.de"]["difference"] > 0
    assert "95% interval" in shown.err
    assert "p (Holm)" in shown.err
    assert "ar:30|seed:5|unit:document" in shown.err


def test_one_file_can_have_a_baseline_by_bootstrap(
    mini_corpus: Path, worse: Path, capsys: Capture
) -> None:
    reference = str(mini_corpus / "test.de")
    files = ["--hypothesis", reference, "--reference", reference, "--baseline", str(worse)]
    assert main(["evaluate", *files, "--test", "bootstrap", "--resamples", "20"]) == 0
    shown = capsys.readouterr()
    assert "bs:20|seed:12345" in json.loads(shown.out)["significance"]["chrf"]["signature"]
    # Rows carry the names of the files.
    assert "worse" in shown.err


def test_comet_is_asked_through_its_own_interpreter(
    mini_corpus: Path, worse: Path, tmp_path: Path, capsys: Capture
) -> None:
    interpreter, model = tmp_path / "python", tmp_path / "toy.ckpt"
    interpreter.write_text(COMET.format(python=sys.executable), encoding="utf-8")
    interpreter.chmod(0o755)
    model.touch()
    reference, source = mini_corpus / "test.de", mini_corpus / "test.en"
    arguments = ["evaluate", "--hypothesis", str(worse), "--reference", str(reference)]
    comet = ["--comet_python", str(interpreter), "--comet_model", str(model)]
    assert main([*arguments, *comet]) == 2
    assert "COMET needs the source text" in capsys.readouterr().err
    assert main([*arguments, "--source", str(source), *comet, "--slide_window", "3"]) == 0
    shown = capsys.readouterr()
    scores: dict[str, Any] = json.loads(shown.out)
    sentences = [line for line in source.read_text(encoding="utf-8").split("\n") if line]
    mean = sum(map(len, sentences)) / len(sentences)
    assert scores["comet"]["score"] == pytest.approx(mean)
    assert scores["slide_comet"]["score"] > 2 * mean
    assert scores["slide_comet"]["signature"].endswith("|window:3|stride:1")
    assert "COMET" in shown.err


def test_nothing_that_a_run_folder_names_is_executed(
    trained_run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IADA_COMET_PYTHON", "IADA_COMET_MODEL"):
        monkeypatch.delenv(name, raising=False)
    folder = shutil.copytree(trained_run, tmp_path / "run")
    trap, model, sprung = folder / "python", folder / "toy.ckpt", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n", encoding="utf-8")
    trap.chmod(0o755)
    model.touch()
    config = load_run_config(folder / "config.yaml")
    strange = EvaluateConfig(comet_python=trap, comet_model=model, slide_window=2, resamples=20)
    write_yaml(folder / "config.yaml", to_mapping(replace(config, evaluate=strange)))
    assert main(["evaluate", str(folder)]) == 0
    shown = capsys.readouterr()
    assert not sprung.exists()
    assert "`evaluate.comet_python` of a file is never executed" in shown.err
    assert "comet" not in json.loads(shown.out)

    own = tmp_path / "own"
    own.write_text(COMET.format(python=sys.executable), encoding="utf-8")
    own.chmod(0o755)
    monkeypatch.setenv("IADA_COMET_PYTHON", str(own))
    monkeypatch.setenv("IADA_COMET_MODEL", str(model))
    assert main(["evaluate", str(folder)]) == 0
    assert {"comet", "slide_comet"} <= set(json.loads(capsys.readouterr().out))
    # A flag wins over the environment.
    command = parse([str(folder), "--comet_python", "given", "--comet_model", "other"])
    assert (command.metrics.comet_python, command.metrics.comet_model) == (
        Path("given"),
        Path("other"),
    )
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"run": Path("r"), "source": Path("s")}, "go with `--hypothesis`"),
        ({"run": Path("r"), "target_language": "de"}, "go with `--hypothesis`"),
        ({"hypothesis": (Path("h"),), "reference": Path("r"), "cxmi": True}, "needs a model"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvaluateCommand(**arguments)


def test_a_run_can_be_asked_for_everything(
    trained_run: Path, mini_corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "run")
    baseline = str(mini_corpus / "test.de")
    flags = ["--cxmi", "--baseline", baseline, "--resamples", "20"]
    assert main(["evaluate", str(folder), *flags]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {"s_bleu", "d_bleu", "chrf", "cxmi", "significance", "by_position"} <= set(shown)
    items = str(mini_corpus / "contrastive.json")
    assert main(["contrast", str(folder), items, "--generative"]) == 0
    found = capsys.readouterr()
    result: dict[str, Any] = json.loads(found.out)
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert scores["contrastive"] == result["contrastive"]
    assert scores["generative"] == result["generative"]
    for heading in ("Preferred %", "Written %", "needs context", "pronoun er", "distance 1"):
        assert heading in found.err


def test_the_keys_of_a_run_are_the_defaults_of_its_evaluation(
    trained_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    config = load_run_config(trained_run / "config.yaml")
    changed = replace(config, evaluate=EvaluateConfig(lowercase=True, resamples=77))
    write_yaml(run / "config.yaml", to_mapping(changed))
    command = parse([str(run), "--resamples", "88"])
    assert command.metrics == EvaluateConfig(lowercase=True, resamples=88)
