"""`iada prepare` and training from what it wrote."""

import json
import shutil
from pathlib import Path

import pytest

from iada.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def arguments(mini_corpus: Path, tmp_path: Path) -> list[str]:
    return [
        *("--data.folder", str(mini_corpus), "--data.prepared", str(tmp_path / "prepared")),
        *("--subwords.vocabulary_size", "450"),
    ]


def test_the_report_ends_with_the_folder(
    arguments: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["prepare", *arguments, "--windows.noisy_context", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "prepared")
    (train,) = [line.split() for line in lines if line.startswith("train ")]
    manifest = json.loads((tmp_path / "prepared" / "manifest.json").read_text(encoding="utf-8"))
    assert train[1] == str(manifest["splits"]["train"]["documents"]) == "30"
    shares = manifest["subsets"]["shares"]
    assert [share["share"] for share in shares][::8] == [0.2, 1.0]
    assert shares[-1]["documents"] == 30
    assert manifest["noise"]["replaced"] == 2
    assert manifest["noise"]["pairs"] > 0


def test_windows_are_shown_token_by_token(
    arguments: list[str], mini_corpus: Path, capsys: Capture
) -> None:
    assert main(["prepare", *arguments, "--show", "2", "--windows.context", "1"]) == 0
    shown = capsys.readouterr().out.split("window of sentence ")[1:]
    assert [text.split("\n", 1)[0] for text in shown] == ["0", "1"]
    # The second window: one context sentence, and the loss begins at its `<sep>`.
    target = shown[1].split("decoder input", 1)[1].splitlines()
    rows = [line.split() for line in target if line.endswith((" yes", " no"))]
    counted = [row[-1] for row in rows]
    begin = [row[1] for row in rows].index("<sep>")
    assert counted == ["no"] * begin + ["yes"] * (len(rows) - begin)
    assert rows[-1][3] == "</s>"
    assert {row[2] for row in rows} == {"special", "context", "current"}


def test_a_dry_run_writes_nothing(arguments: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["prepare", *arguments, "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "450 pieces" in out
    assert "train.en (" in out
    assert list(tmp_path.iterdir()) == []


def test_training_reads_the_prepared_corpus(arguments: list[str], tmp_path: Path) -> None:
    assert main(["prepare", *arguments]) == 0
    small = [
        *("--windows.max_length", "128", "--model.max_positions", "160", "--model.dim", "16"),
        *("--model.feed_forward", "16", "--model.heads", "2", "--model.encoder_layers", "1"),
        *("--model.decoder_layers", "1", "--train.max_updates", "2", "--train.max_tokens", "512"),
        *("--train.accumulation", "1", "--train.validate_every", "2"),
    ]
    run = tmp_path / "run"
    assert main(["train", *arguments, *small, "--output", str(run)]) == 0
    prepared = (tmp_path / "prepared" / "tokenizer" / "tokenizer.json").read_bytes()
    assert (run / "model" / "tokenizer.json").read_bytes() == prepared


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "`data.prepared` is empty"),
        (["--data.prepared", "x", "--show", "-1"], "must be 0 or more"),
        (["--data.prepared", "x", "--data.folder", "nowhere"], "does not exist"),
    ],
)
def test_what_cannot_be_prepared_is_explained(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_of_which_nothing_can_be_used_is_an_error(
    arguments: list[str], mini_corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(mini_corpus, folder)
    documents = (folder / "train.en").read_text(encoding="utf-8").split("\n\n")
    text = "\n\n".join(f"one more\n{document}" for document in documents)
    (folder / "train.en").write_text(text, encoding="utf-8")
    assert main(["prepare", *arguments, "--data.folder", str(folder)]) == 2
    captured = capsys.readouterr()
    assert "No document of `data.train` can be used" in captured.err
    assert "(count_mismatch, 30)" in captured.err
    assert not (tmp_path / "prepared").exists()


def test_windows_that_cannot_be_shown_leave_no_finished_folder(
    arguments: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["prepare", *arguments, "--show", "1", "--windows.max_length", "4"]) == 2
    assert "windows.max_length" in capsys.readouterr().err
    assert not (tmp_path / "prepared").exists()


def test_training_without_the_prepared_folder_says_how_to_make_it(
    arguments: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["train", *arguments, "--output", str(tmp_path / "run")]) == 2
    assert "Write it with `iada prepare`" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
