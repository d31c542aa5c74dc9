"""`iada recipes`: what ships with the package can be listed, read and written."""

from pathlib import Path

import pytest

from iada.cli.main import main
from iada.cli.recipes import find_recipes
from iada.config.run import load_run_config

ROOT = Path(__file__).parents[3]


def test_every_recipe_of_the_repository_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    files = sorted((ROOT / "recipes").rglob("*.yaml"))
    assert listed == [f"{file.parent.name}/{file.stem}" for file in files]


def test_a_recipe_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "mini/config"]) == 0
    assert capsys.readouterr().out == find_recipes()["mini/config"].read_text(encoding="utf-8")


def test_a_recipe_is_written_ready_to_load(tmp_path: Path) -> None:
    path = tmp_path / "own" / "mine.yaml"
    assert main(["recipes", "mini/config", "--output", str(path)]) == 0
    assert load_run_config(path).model.dim == 96


def test_a_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine", encoding="utf-8")
    assert main(["recipes", "mini/config", "--output", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert "already exists. Choose another `--output`." in capsys.readouterr().err


def test_an_unknown_recipe_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "mini/confg"]) == 2
    assert "Did you mean `mini/config`?" in capsys.readouterr().err


def test_an_output_without_a_recipe_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--output", "x.yaml"]) == 2
    assert "`iada recipes NAME --output FILE`" in capsys.readouterr().err
