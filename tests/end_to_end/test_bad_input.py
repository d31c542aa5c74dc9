"""What users get wrong: one or two lines on stderr, exit code 2, and nothing half-written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from iada.cli.main import main

Refuse = Callable[..., str]


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Return a function that runs a command, checks how it fails, and returns the message."""
    monkeypatch.delenv("IADA_DEBUG", raising=False)

    def run(*arguments: str | Path, unchanged: Path) -> str:
        before = contents(unchanged)
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        captured = capsys.readouterr()
        # A dry run of `train` shows the configuration before it reads the corpus.
        assert captured.out == "" or "--dry_run" in arguments
        assert "Traceback" not in captured.err
        # Warnings may come before the error; bars of other libraries are not ours.
        assert captured.err.count("error: ") == 1
        message = captured.err[captured.err.index("error: ") :]
        assert len(message.splitlines()) <= 2
        assert contents(unchanged) == before
        return message

    return run


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return every path below a folder, with the bytes of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def corpus(mini_corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus that a test may spoil."""
    return shutil.copytree(mini_corpus, tmp_path / "corpus")


@pytest.fixture
def recipe(corpus: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a recipe with changed sections."""

    def write(**changes: Any) -> Path:
        content: dict[str, Any] = {
            "output": str(tmp_path / "run"),
            "method": "doc2doc",
            "data": {"folder": str(corpus)},
            "subwords": {"vocabulary_size": 450},
            "windows": {"max_length": 128},
            "model": {"dim": 16, "feed_forward": 16, "heads": 2},
            "train": {"max_tokens": 512, "max_updates": 1, "validate_every": 1},
        }
        for key, value in changes.items():
            is_section = isinstance(value, dict) and key in content
            content[key] = content[key] | value if is_section else value
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trian": {}}, "unknown key `trian` in `RunConfig`. Did you mean `train`?"),
        ({"train": {"learning_rat": 1}}, "Did you mean `learning_rate`?"),
        ({"train": {"max_updates": "many"}}, "`max_updates` must be a whole number"),
        ({"model": {"heads": 3}}, "`model.heads` must be a divisor of `model.dim` (16)"),
        ({"model": {"dropout": 1.0}}, "`model.dropout` must be at least 0 and below 1"),
        ({"method": "iada"}, "`method` must be one of"),
        ({"windows": {"max_length": 4000}}, "at most `model.max_positions` (1024)"),
        ({"train": {"max_tokens": 100}}, "at least `windows.max_length` (128)"),
        ({"augment": {"p_context": 1.5}}, "`augment.p_context` must be at least 0 and below 1"),
        ({"subwords": {"vocabulary_size": 310}}, "alone are"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused(
    recipe: Callable[..., Path],
    refuse: Refuse,
    tmp_path: Path,
    changes: dict[str, Any],
    expected: str,
) -> None:
    assert expected in refuse("train", recipe(**changes), unchanged=tmp_path)


def test_a_missing_recipe_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    message = refuse("train", tmp_path / "absent.yaml", unchanged=tmp_path)
    assert "absent.yaml: there is no such configuration file" in message


def replaced(text: str, line: int, by: str | None) -> str:
    """Replace a line, counted from 1; None removes it."""
    lines = text.split("\n")
    lines[line - 1 : line] = [] if by is None else [by]
    return "\n".join(lines)


@pytest.mark.parametrize("dry_run", [[], ["--dry_run"]])
@pytest.mark.parametrize(
    ("name", "spoil", "expected"),
    [
        ("train.de", lambda text: replaced(text, 2, None), "Both sides must be aligned"),
        ("train.de", lambda text: replaced(text, 2, ""), "They first diverge at document 1 with"),
        ("dev.en", lambda text: "", "dev.en holds no sentence"),
        ("dev.en", lambda text: replaced(text, 2, "a\0"), "dev.en:2: contains a NUL character"),
        (
            "dev.de",
            lambda text: replaced(text, 3, "M\udcfcll"),
            "is not valid UTF-8. Convert the file to UTF-8.",
        ),
        (
            "train.en",
            lambda text: replaced(text, 1, "long " * 200),
            "train.en:1: sentence 1 needs",
        ),
    ],
)
def test_a_corpus_that_is_broken_is_refused(
    recipe: Callable[..., Path],
    refuse: Refuse,
    corpus: Path,
    tmp_path: Path,
    name: str,
    spoil: Callable[[str], str],
    expected: str,
    dry_run: list[str],
) -> None:
    path = corpus / name
    text = spoil(path.read_text(encoding="utf-8"))
    # A lone surrogate stands for a byte that is not UTF-8.
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert expected in refuse("train", recipe(), *dry_run, unchanged=tmp_path)


def test_empty_documents_are_refused(
    recipe: Callable[..., Path], refuse: Refuse, corpus: Path, tmp_path: Path
) -> None:
    for language in ("en", "de"):
        path = corpus / f"train.{language}"
        path.write_text(path.read_text(encoding="utf-8").replace("\n\n", "\n\n\n"), "utf-8")
    message = refuse("train", recipe(), unchanged=tmp_path)
    assert "train.en:" in message
    assert "(empty_document, 58)" in message


def test_empty_files_are_refused(
    recipe: Callable[..., Path], refuse: Refuse, corpus: Path, tmp_path: Path
) -> None:
    for language in ("en", "de"):
        (corpus / f"train.{language}").write_text("", encoding="utf-8")
    assert "train.en holds no sentence" in refuse("train", recipe(), unchanged=tmp_path)


def test_a_missing_corpus_file_is_refused(
    recipe: Callable[..., Path], refuse: Refuse, corpus: Path, tmp_path: Path
) -> None:
    (corpus / "dev.de").unlink()
    message = refuse("train", recipe(), unchanged=tmp_path)
    assert "dev.de does not exist or is not a file" in message


def test_a_folder_that_holds_files_is_not_trained_into(
    recipe: Callable[..., Path], refuse: Refuse, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x", encoding="utf-8")
    message = refuse("train", recipe(), unchanged=tmp_path)
    assert "run already holds files. Choose another `--output`, or remove it yourself." in message


def test_resuming_what_never_began_is_refused(
    recipe: Callable[..., Path], refuse: Refuse, tmp_path: Path
) -> None:
    message = refuse("train", recipe(), "--resume", unchanged=tmp_path)
    assert "is not a run folder: it has no config.yaml" in message


def test_resuming_with_another_configuration_names_key_saved_and_given(
    trained_run: Path, refuse: Refuse
) -> None:
    message = refuse(
        "train",
        trained_run / "config.yaml",
        "--resume",
        "--train.learning_rate",
        "0.25",
        "--seed",
        "9",
        unchanged=trained_run,
    )
    assert "seed: saved 1, given 9" in message
    assert "train.learning_rate: saved 0.005, given 0.25" in message


def test_translating_an_over_long_sentence_is_refused(
    trained_run: Path, refuse: Refuse, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text(f"Short .\n{'long ' * 200}\n", encoding="utf-8")
    message = refuse(
        "translate", trained_run, "--input", source, "--output", tmp_path / "out" / "o.txt",
        unchanged=tmp_path,
    )  # fmt: skip
    assert "in.txt:1: sentence 2 needs" in message
    assert "trained for at most 128" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no sentence"),
        (b"\n\n", "holds no sentence"),
        (b"a\nb\0\n", "in.txt:2: contains a NUL character"),
        (b"a\nM\xfcll\n", "in.txt:2: byte 3 is not valid UTF-8"),
        (None, "does not exist or is not a file"),
    ],
)
def test_translating_a_file_that_is_no_text_is_refused(
    trained_run: Path, refuse: Refuse, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    source = tmp_path / "in.txt"
    if content is not None:
        source.write_bytes(content)
    output = tmp_path / "out" / "o.txt"
    arguments = ("translate", trained_run, "--input", source, "--output", output)
    assert expected in refuse(*arguments, unchanged=tmp_path)


def test_the_input_of_translate_is_never_overwritten(
    trained_run: Path, refuse: Refuse, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a\n", encoding="utf-8")
    arguments = ("translate", trained_run, "--input", source, "--output", source)
    assert "is the input itself" in refuse(*arguments, unchanged=tmp_path)


def test_a_beam_of_nothing_is_refused(trained_run: Path, refuse: Refuse) -> None:
    message = refuse("translate", trained_run, "--beam", "0", unchanged=trained_run)
    assert "`decode.beam` must be at least 1, but is 0" in message


@pytest.mark.parametrize(
    ("command", "dry_run"),
    [
        ("translate", False),
        ("translate", True),
        ("evaluate", False),
        ("evaluate", True),
        ("contrast", False),
        ("contrast", True),
        ("inspect", False),
    ],
)
def test_a_run_without_a_model_is_refused(
    trained_run: Path,
    mini_corpus: Path,
    refuse: Refuse,
    tmp_path: Path,
    command: str,
    dry_run: bool,
) -> None:
    run = tmp_path / "run"
    arguments = [command, run]
    arguments += [mini_corpus / "contrastive.json"] if command == "contrast" else []
    arguments += ["--dry_run"] if dry_run else []
    if not (dry_run and command == "contrast"):
        message = refuse(*arguments, unchanged=tmp_path)
        assert "is not a run folder: it has no config.yaml" in message
    run.mkdir()
    shutil.copy(trained_run / "config.yaml", run)
    message = refuse(*arguments, unchanged=tmp_path)
    assert "holds no finished model. Train it to the end" in message


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--model.architecture", "gtrans"], "model.architecture: saved doc2doc, given gtrans"),
        (["--model.architecture", "han", "--windows.context", "0"], "`windows.context` is 0"),
        (["--model.architecture", "flat", "--windows.strategy", "multires"], "needs a current"),
        (["--model.frozen_context", "True"], "means nothing to `model.architecture: doc2doc`"),
    ],
)
def test_a_run_is_not_resumed_as_another_architecture(
    trained_run: Path, refuse: Refuse, tmp_path: Path, flags: list[str], expected: str
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    message = refuse("train", run / "config.yaml", "--resume", *flags, unchanged=tmp_path)
    assert expected in message


@pytest.mark.parametrize("dry_run", [[], ["--dry_run"]])
@pytest.mark.parametrize(
    ("start", "flags", "expected"),
    [
        (None, ["--subwords.vocabulary_size", "460"], "`subwords.vocabulary_size: 450`, this run"),
        (
            None,
            ["--model.dim", "64"],
            "has `model.dim: 32`, this run 64, so its weights do not",
        ),
        ("absent", [], "absent is not a run folder"),
        ("", ["--model.frozen_context", "True"], "`train.start` must be a run folder with"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    trained_run: Path,
    refuse: Refuse,
    tmp_path: Path,
    start: str | None,
    flags: list[str],
    expected: str,
    dry_run: list[str],
) -> None:
    arguments = ["--output", str(tmp_path / "run"), "--model.architecture", "san", *flags, *dry_run]
    if start != "":
        arguments += ["--train.start", start or str(trained_run)]
    message = refuse("train", trained_run / "config.yaml", *arguments, unchanged=tmp_path)
    assert expected in message


@pytest.mark.parametrize("dry_run", [[], ["--dry_run"]])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[{]", "set.json:1: not valid JSON"),
        ("[]", "set.json holds no item"),
        (json.dumps([{"document id": "x"}]), "lacks the field 'segment id'"),
        (None, "set.json does not exist"),
    ],
)
def test_a_contrastive_set_that_is_none_is_refused(
    trained_run: Path,
    refuse: Refuse,
    tmp_path: Path,
    text: str | None,
    expected: str,
    dry_run: list[str],
) -> None:
    path = tmp_path / "set.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert expected in refuse("contrast", trained_run, path, *dry_run, unchanged=trained_run)


def test_contrastive_documents_of_another_corpus_are_refused(
    trained_run: Path, mini_corpus: Path, refuse: Refuse, tmp_path: Path
) -> None:
    documents = shutil.copytree(mini_corpus / "contrastive", tmp_path / "documents")
    for path in documents.iterdir():
        path.write_text("another line\n", encoding="utf-8")
    message = refuse(
        "contrast", trained_run, mini_corpus / "contrastive.json", "--documents", documents,
        unchanged=trained_run,
    )  # fmt: skip
    assert "is not the segment that the contrastive set names" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Give a run folder, or both `--hypothesis` and `--reference`"),
        (["--hypothesis", "h"], "`--hypothesis` and `--reference` go together"),
        (["--reference", "r"], "`--hypothesis` and `--reference` go together"),
        (["run", "--hypothesis", "h", "--reference", "r"], "Give a run folder, or both"),
        (["run", "--hypothesis", "h"], "Give a run folder, or both"),
        (["--hypothesis", "h", "--reference", "r"], "does not exist or is not a file"),
    ],
)
def test_evaluate_needs_a_run_or_two_files(
    refuse: Refuse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in refuse("evaluate", *arguments, unchanged=tmp_path)


def test_a_hypothesis_of_other_lines_is_refused(
    mini_corpus: Path, refuse: Refuse, tmp_path: Path
) -> None:
    hypothesis = tmp_path / "h.de"
    hypothesis.write_text("a\n", encoding="utf-8")
    files = ("--hypothesis", hypothesis, "--reference", mini_corpus / "test.de")
    message = refuse("evaluate", *files, unchanged=tmp_path)
    assert "h.de has 1 lines but" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--document", "7"], "test.en has 6 documents; there is no document 7"),
        (["--document", "0"], "there is no document 0"),
        (["--source", "x"], "`--source` and `--target` go together"),
        (["--alpha", "-1"], "`augment.alpha` must be 0 or more"),
    ],
)
def test_inspect_refuses_what_it_cannot_show(
    trained_run: Path, refuse: Refuse, arguments: list[str], expected: str
) -> None:
    assert expected in refuse("inspect", trained_run, *arguments, unchanged=trained_run)
