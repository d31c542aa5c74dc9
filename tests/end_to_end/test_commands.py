"""Every command from the outside: what it prints, what it writes, and what it leaves alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel

from iada.cli.main import main
from iada.data.documents import Document
from iada.decoding.translator import DocumentTranslator

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that a test may write to."""
    return shutil.copytree(trained_run, tmp_path / "run")


@pytest.fixture
def recipe(mini_corpus: Path, tmp_path: Path) -> Path:
    """A recipe that is done in two updates."""
    path = tmp_path / "recipe.yaml"
    content = {
        "output": str(tmp_path / "new-run"),
        "method": "iada_drop_tnorm",
        "data": {"folder": str(mini_corpus)},
        "subwords": {"vocabulary_size": 450},
        "windows": {"max_length": 128, "context": 1},
        "model": {
            "dim": 16,
            "feed_forward": 16,
            "heads": 2,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "max_positions": 128,
        },
        "train": {
            "max_tokens": 512,
            "accumulation": 1,
            "max_updates": 2,
            "validate_every": 1,
            "log_every": 1,
        },
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_train_writes_a_whole_run_folder(recipe: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["train", str(recipe), "--seed", "5"]) == 0
    run = tmp_path / "new-run"
    assert capsys.readouterr().out == f"{run}\n"
    saved = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    assert saved["seed"] == 5
    assert saved["method"] == "iada_drop_tnorm"
    assert saved["augment"]["measure"] == "tnorm"
    assert saved["windows"]["context"] == 1
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    assert set(environment["data"]["files"]) == {"train", "dev", "test"}
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in metrics if "loss" in line] == [1, 2]
    assert [line["update"] for line in metrics if "dev_nll" in line] == [1, 2]
    assert (run / "model" / "config.json").is_file()
    assert not (run / ".model").exists()


def test_a_longer_run_is_resumed_and_not_begun_again(
    recipe: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["train", str(recipe)]) == 0
    assert main(["train", str(recipe), "--resume", "--train.max_updates", "3"]) == 0
    lines = (tmp_path / "new-run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(line) for line in lines if "loss" in json.loads(line)]
    assert [line["update"] for line in losses] == [1, 2, 3]


def test_a_dry_run_of_train_shows_the_plan_and_writes_nothing(
    recipe: Path, mini_corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = contents(tmp_path), contents(mini_corpus)
    assert main(["train", str(recipe), "--dry_run"]) == 0
    shown = capsys.readouterr().out
    assert "method: iada_drop_tnorm" in shown
    assert "vocabulary_size: 450" in shown
    lines = dict(line.split("  ", 1) for line in shown.splitlines() if "  " in line.strip())
    assert lines["training documents"].strip() == "30"
    assert lines["updates at most"].strip() == "2"
    sentences = (mini_corpus / "train.en").read_text(encoding="utf-8").split("\n")
    assert lines["training windows"].strip() == f"{sum(map(bool, sentences)):,}"
    assert (contents(tmp_path), contents(mini_corpus)) == before


def test_translate_writes_the_test_split_into_the_run(
    run: Path, mini_corpus: Path, capsys: Capture
) -> None:
    assert main(["translate", str(run), "--beam", "1"]) == 0
    output = run / "translations" / "test.de"
    assert capsys.readouterr().out == f"{output}\n"
    source = (mini_corpus / "test.en").read_text(encoding="utf-8").split("\n")
    translated = output.read_text(encoding="utf-8").split("\n")
    assert len(translated) == len(source)
    assert all(line == "" for line, given in zip(translated, source, strict=True) if given == "")
    assert json.loads((run / "translations" / "test.de.json").read_text())["beam"] == 1


def test_translate_takes_any_file_and_any_boundaries(
    run: Path, tmp_path: Path, capsys: Capture
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out" / "out.txt"
    source.write_text("<d>\nHello .\n\nIt is here .\n<d>\nüß 🙂\n", encoding="utf-8")
    arguments = ["--input", str(source), "--output", str(output), "--boundaries", "marker"]
    assert main(["translate", str(run), *arguments]) == 0
    lines = output.read_text(encoding="utf-8").split("\n")
    assert [lines[i] for i in (0, 2, 4, 6)] == ["<d>", "", "<d>", ""]
    assert not (run / "translations").exists()


def test_evaluate_translates_scores_and_remembers(run: Path, capsys: Capture) -> None:
    assert main(["evaluate", str(run)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert 0 <= shown["s_bleu"]["score"] <= 100
    assert shown["translation"]["beam"] == 5


def test_evaluate_scores_any_two_files(mini_corpus: Path, capsys: Capture) -> None:
    reference = str(mini_corpus / "test.de")
    assert main(["evaluate", "--hypothesis", reference, "--reference", reference]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["s_bleu"]["score"] == pytest.approx(100)
    assert shown["d_bleu"]["score"] == pytest.approx(100)


def test_contrast_prints_and_remembers_the_accuracy(
    run: Path, mini_corpus: Path, capsys: Capture
) -> None:
    assert main(["contrast", str(run), str(mini_corpus / "contrastive.json")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["total"] == 18
    assert shown["correct"] == sum(group["correct"] for group in shown["by_class"].values())
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert scores["contrastive"] == shown


def test_inspect_shows_a_heat_map_on_the_terminal_and_as_a_page(
    trained_run: Path, mini_corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "map.html"
    assert main(["inspect", str(trained_run), "--document", "2", "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    documents = (mini_corpus / "test.en").read_text(encoding="utf-8").split("\n\n")
    for number in range(1, len(documents[1].split("\n")) + 1):
        assert f"test.en:2, sentence {number}\n" in shown
    assert "test.en:1" not in shown
    html = page.read_text(encoding="utf-8")
    assert html.lower().startswith("<!doctype html>")
    assert "Importance (gnorm) in test.en:2" in html


@pytest.mark.parametrize("measure", ["tnorm", "gnorm"])
def test_inspect_takes_any_pair_of_files(
    trained_run: Path, tmp_path: Path, capsys: Capture, measure: str
) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("One .\n\nTwo .\n", encoding="utf-8")
    target.write_text("Eins .\n\nZwei .\n", encoding="utf-8")
    arguments = ["--source", str(source), "--target", str(target), "--measure", measure]
    assert main(["inspect", str(trained_run), *arguments, "--alpha", "0.5"]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("command", ["translate", "evaluate", "contrast"])
def test_dry_runs_write_nothing(
    run: Path, mini_corpus: Path, capsys: Capture, command: str
) -> None:
    before = contents(run)
    extra = [str(mini_corpus / "contrastive.json")] if command == "contrast" else []
    assert main([command, str(run), *extra, "--dry_run"]) == 0
    assert contents(run) == before
    shown = capsys.readouterr().out
    # 18 items with a reference and two variants each.
    expected = {"translate": "6 documents", "evaluate": "test.de", "contrast": "54 candidates"}
    assert expected[command] in shown


def test_env_shows_versions(capsys: Capture) -> None:
    assert main(["env"]) == 0
    shown = capsys.readouterr().out
    assert "packages.torch: " in shown
    assert main(["env", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["packages"]["torch"]


def test_plain_transformers_loads_and_runs_the_saved_model(
    trained_run: Path, mini_corpus: Path
) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(trained_run / "model")
    tokenizer = AutoTokenizer.from_pretrained(trained_run / "model")
    assert isinstance(model, MarianMTModel)
    lines = (mini_corpus / "test.en").read_text(encoding="utf-8").split("\n")
    for text in filter(None, lines):
        inputs = tokenizer(text, return_tensors="pt")
        # The settings of `iada translate` on a first sentence, which has no context.
        limit = int(1.2 * (inputs["input_ids"].shape[1] - 1)) + 10
        generated = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            num_beams=5,
            max_length=None,
            max_new_tokens=limit,
        )
        # Engines agree on searches that end by themselves; so small a model often runs on.
        if generated[0, -1] == tokenizer.eos_token_id:
            break
    else:
        pytest.fail("no translation ends before its limit")
    plain = tokenizer.decode(generated[0], skip_special_tokens=True)
    (translated,) = DocumentTranslator.load(trained_run).translate([Document("d", (text,))])
    assert plain == translated.sentences[0]
    assert not set(generated[0].tolist()) & {3, 4, 5}


def test_stderr_holds_no_progress_bars_when_it_is_not_a_terminal(
    trained_run: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("Good morning .\n", encoding="utf-8")
    # In a process of its own: Transformers reads its settings once, when it is imported.
    command = [sys.executable, "-m", "iada", "translate", str(trained_run)]
    files = ["--input", str(source), "--output", str(tmp_path / "out.txt")]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True)
    # So small a model may run up to the length limit, which is said; a bar would say more.
    said = [line for line in done.stderr.splitlines() if "reached the length limit" not in line]
    assert said == []
