"""`iada prepare`, killed at random moments and run again, gives the bytes of an unbroken run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iada.config.data import DataConfig, SubwordConfig
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.prepared.prepare import Preparation, prepare

KILLS = [4, pytest.param(20, marks=pytest.mark.exhaustive)]
VOCABULARY = 700


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = MiniConfig(
        train_documents=1500, dev_documents=100, test_documents=100, contrastive_per_cell=1
    )
    return write_mini_corpus(tmp_path_factory.mktemp("killed") / "corpus", config)


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_run_is_completed_to_the_same_bytes(
    corpus: Path, kills: int, killed_runs: Any
) -> None:
    def command(output: Path) -> list[str]:
        return [
            *("prepare", "--data.folder", str(corpus), "--data.prepared", str(output)),
            *("--subwords.vocabulary_size", str(VOCABULARY)),
        ]

    outputs: Iterator[Path] = killed_runs(command, ".partial", kills)
    expected = (next(outputs) / "manifest.json").read_bytes()
    survived = 0
    for output in outputs:
        # In this process and without workers: quicker, and the bytes must be the same.
        data = DataConfig(folder=corpus)
        subwords = SubwordConfig(vocabulary_size=VOCABULARY)
        prepare(Preparation(data, subwords, output, workers=1)).verify()
        assert (output / "manifest.json").read_bytes() == expected
        assert not output.with_name(f"{output.name}.partial").exists()
        survived += 1
    assert survived == kills
