"""A back-translation that is killed and run again gives the bytes of an unbroken run."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from iada.cli.main import main

KILLS = [2, pytest.param(6, marks=pytest.mark.exhaustive)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_synthesis_is_completed_to_the_same_bytes(
    trained_run: Path,
    mini_corpus: Path,
    tmp_path: Path,
    killed_runs: Any,
    kills: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    config["data"] |= {"source_language": "de", "target_language": "en"}
    (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def command(output: Path) -> list[str]:
        flags = ["--kind", "back_translate", "--tag", "<bt>", "--output", str(output)]
        return ["augment", str(run), *flags]

    outputs: Iterator[Path] = killed_runs(command, ".partial", kills)
    expected = contents(next(outputs))
    real = (mini_corpus / "train.de").read_bytes()
    assert expected["train.de"] == real + b"\n" + real
    survived = resumed = 0
    for output in outputs:
        capsys.readouterr()
        # In this process: quicker, and the bytes must be the same.
        assert main(command(output)) == 0
        resumed += "resuming after" in capsys.readouterr().err
        assert contents(output) == expected
        assert not [path for path in tmp_path.iterdir() if path.suffix == ".partial"]
        survived += 1
    assert survived == kills
    # A kill before the first answer leaves nothing to go on from.
    assert resumed > 0
