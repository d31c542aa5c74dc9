"""`data.hold_out`: validation and test documents from the training files."""

from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.data import DataConfig, Split
from iada.data.formats.findings import Findings
from iada.data.formats.readers import iterate_documents, read_split
from iada.errors import ConfigError, DataError

SPLITS: tuple[Split, ...] = ("train", "dev", "test")


def write(folder: Path, documents: list[str]) -> DataConfig:
    for code, text in (("en", str.lower), ("de", str.upper)):
        content = "\n".join(f"{text(one)} a\n{text(one)} b\n" for one in documents)
        (folder / f"train.{code}").write_text(content, encoding="utf-8")
    return DataConfig(folder=folder, hold_out=0.1)


def firsts(data: DataConfig) -> dict[Split, list[str]]:
    return {s: [d.source.sentences[0][:-2] for d in read_split(data, s)] for s in SPLITS}


def test_splits_are_whole_documents_of_their_share(tmp_path: Path) -> None:
    names = [f"doc{number}" for number in range(40)]
    found = firsts(write(tmp_path, names))
    assert [len(found[split]) for split in SPLITS] == [32, 4, 4]
    assert sorted(name for split in found.values() for name in split) == sorted(names)
    # The order of the file stays.
    assert found["train"] == sorted(found["train"], key=names.index)


def test_the_choice_depends_on_the_text_alone(tmp_path: Path) -> None:
    names = [f"doc{number}" for number in range(40)]
    once = firsts(write(tmp_path, names))
    again = firsts(write(tmp_path, names[::-1]))
    assert {s: sorted(found) for s, found in once.items()} == {
        s: sorted(found) for s, found in again.items()
    }


def test_copies_of_a_document_stay_together(tmp_path: Path) -> None:
    names = [f"doc{number}" for number in range(20)]
    found = firsts(write(tmp_path, names + names))
    assert not set(found["train"]) & (set(found["dev"]) | set(found["test"]))
    assert not set(found["dev"]) & set(found["test"])
    assert [len(found[split]) for split in SPLITS] == [32, 4, 4]


def test_every_unit_is_accounted_for_once(tmp_path: Path) -> None:
    data = write(tmp_path, [f"doc{number}" for number in range(20)])
    findings = Findings()
    counts = {s: sum(len(d) for d in iterate_documents(data, s, findings)) for s in SPLITS}
    findings.verify_tallies()
    assert counts == {"train": 32, "dev": 4, "test": 4}
    # 40 sentences: all kept, of which 8 are also counted as set aside from training.
    assert findings.source.kept == 40


def test_few_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 different documents, too few to hold out 1"):
        read_split(write(tmp_path, ["one", "two"]), "dev")
    assert len(read_split(write(tmp_path, ["one", "two", "three"]), "dev")) == 1


def test_other_files_are_not_needed_nor_read(tmp_path: Path) -> None:
    data = write(tmp_path, [f"doc{number}" for number in range(10)])
    assert data.paths("dev") == data.paths("train")
    assert replace(data, hold_out=0.0).paths("dev")[0].name == "dev.en"
    with pytest.raises(ConfigError, match=r"data\.hold_out"):
        DataConfig(hold_out=0.5)
