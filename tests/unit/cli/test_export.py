"""`iada export`: a folder that CTranslate2 reads and `iada translate` finds."""

import json
import shutil
from pathlib import Path

import ctranslate2
import pytest

from iada.cli.export import parse, run
from iada.cli.main import main
from iada.cli.translate import parse as parse_translate
from iada.cli.translate import run as translate
from iada.errors import ModelError

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(trained_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_run, tmp_path / "run")


def test_what_is_exported_is_found_and_used(folder: Path, capsys: Capture) -> None:
    output = run(parse([str(folder), "--windows", "20"]))
    assert output == folder / "exported" / "float32"
    assert capsys.readouterr().out == f"{output}: 20 of 20 greedy translations are equal\n"
    translated = translate(parse_translate([str(folder), "--engine", "ctranslate2"]))
    details = json.loads(translated.with_name("test.de.json").read_text(encoding="utf-8"))
    assert details["engine"] == "ctranslate2"
    # Without a target prefix it is the fastest.
    flags = ["--target_context", "none", "--overwrite"]
    translated = translate(parse_translate([str(folder), *flags]))
    details = json.loads(translated.with_name("test.de.json").read_text(encoding="utf-8"))
    assert details["engine"] == "ctranslate2"


def test_the_folder_is_an_ordinary_model(folder: Path, tmp_path: Path) -> None:
    output = run(parse([str(folder), "--output", str(tmp_path / "x"), "--quantization", "int8"]))
    translator = ctranslate2.Translator(str(output))
    (result,) = translator.translate_batch([["▁", "</s>"]], max_input_length=0)
    assert isinstance(result.hypotheses[0], list)
    told = json.loads((output / "iada_export.json").read_text(encoding="utf-8"))
    assert told["quantization"] == "int8"
    assert 0 < told["agreement"]["total"] <= 200


def test_a_second_export_replaces_the_first(folder: Path, capsys: Capture) -> None:
    first = run(parse([str(folder), "--windows", "3"]))
    (first / "stray").touch()
    assert run(parse([str(folder), "--windows", "4"])) == first
    assert not (first / "stray").exists()
    assert [path.name for path in first.parent.iterdir()] == ["float32"]


def test_a_dry_run_writes_nothing(folder: Path, capsys: Capture) -> None:
    run(parse([str(folder), "--dry_run"]))
    assert capsys.readouterr().out == (
        f"{folder / 'model'} -> {folder / 'exported' / 'float32'} (float32)\n"
    )
    assert not (folder / "exported").exists()


def test_mistakes_are_told_in_one_line(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(tmp_path / "none")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    with pytest.raises(ModelError, match="exists and is not an export"):
        run(parse([str(folder), "--output", str(tmp_path)]))
