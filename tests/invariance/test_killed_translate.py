"""`iada translate`, killed at random moments and run again, gives the bytes of an unbroken run."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iada.cli.main import main

KILLS = [2, pytest.param(10, marks=pytest.mark.exhaustive)]
NAMES = ("", ".nbest.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_run_is_completed_to_the_same_bytes(
    trained_run: Path,
    mini_corpus: Path,
    tmp_path: Path,
    killed_runs: Any,
    kills: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    source = tmp_path / "in.txt"
    parts = [(mini_corpus / f"{split}.en").read_text("utf-8") for split in ("test", "dev", "train")]
    source.write_text("\n".join(parts), encoding="utf-8")

    def command(output: Path) -> list[str]:
        arguments = ["translate", str(run), "--input", str(source), "--output", str(output)]
        return [*arguments, "--n_best", "2"]

    outputs: Iterator[Path] = killed_runs(command, ".journal", kills)
    whole = next(outputs)
    expected = [whole.with_name(f"{whole.name}{name}").read_bytes() for name in NAMES]
    survived = resumed = 0
    for output in outputs:
        capsys.readouterr()
        # In this process: quicker, and the bytes must be the same.
        assert main(command(output)) == 0
        resumed += "resuming after" in capsys.readouterr().err
        written = [output.with_name(f"{output.name}{name}").read_bytes() for name in NAMES]
        assert written == expected
        assert not [path for path in tmp_path.iterdir() if path.suffix in (".partial", ".journal")]
        survived += 1
    assert survived == kills
    # A kill before the first result leaves nothing to resume from.
    assert resumed > 0
