"""What iada 0.1.0 left behind still loads, translates to the same strings, and can be continued.

`tests/data/run-0.1.0.tar.xz` was made by that version from the mini corpus: documents, a prepared
store, a finished run of 700 updates, its translations of the test split, and the translations
after 40 more updates.
"""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from iada.cli.main import main
from iada.config.run import RunConfig
from iada.data.prepared.prepared_corpus import PreparedCorpus
from iada.errors import RunError
from iada.runs.folder import RunFolder
from iada.training.train import train

ARCHIVE = Path(__file__).parents[1] / "data" / "run-0.1.0.tar.xz"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The unpacked archive, as the working directory: its paths are relative."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _longer() -> RunConfig:
    config = RunFolder(Path("run")).config()
    return replace(config, train=replace(config.train, max_updates=740))


def test_a_finished_run_translates_to_the_recorded_strings(archive: Path) -> None:
    assert main(["translate", "run"]) == 0
    assert (
        Path("run/translations/test.de").read_bytes() == Path("recorded/finished.de").read_bytes()
    )


def test_a_prepared_store_is_intact_and_holds_the_recorded_documents(archive: Path) -> None:
    prepared = PreparedCorpus.open(Path("store"))
    prepared.verify()
    store = prepared.store("test", prepared.subwords())
    assert len(store.document_starts) - 1 == 2


def test_a_finished_run_stays_as_it_is(archive: Path) -> None:
    before = Path("run/model/model.safetensors").read_bytes()
    train(RunFolder(Path("run")).config(), resume=True)
    assert Path("run/model/model.safetensors").read_bytes() == before
    assert [path.name for path in Path("run/checkpoints").iterdir()] == ["checkpoint-700"]


def test_a_run_is_continued_from_its_pickled_state_as_0_1_0_would_have(
    archive: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(_longer(), resume=True, accept_changes=True)
    expected = "checkpoint-700 was written by iada 0.1.0; the next checkpoint has the new format."
    assert expected in caplog.text
    assert main(["translate", "run"]) == 0
    assert (
        Path("run/translations/test.de").read_bytes() == Path("recorded/continued.de").read_bytes()
    )
    # Nothing of the old format is left to be read again.
    newest = RunFolder(Path("run")).last_checkpoint()
    assert newest is not None
    assert not [*newest.path.glob("*.pt"), *newest.path.glob("*.pth"), *newest.path.glob("*.bin")]


@pytest.mark.parametrize(
    "part", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors"]
)
@pytest.mark.parametrize("damage", ["halve", "remove"])
def test_damage_to_an_old_checkpoint_is_refused(archive: Path, part: str, damage: str) -> None:
    path = Path("run/checkpoints/checkpoint-700") / part
    if damage == "halve":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.unlink()
    with pytest.raises(RunError, match="holds no complete checkpoint: checkpoint-700"):
        train(_longer(), resume=True, accept_changes=True)
