"""`prepare`: what it writes, what it keeps of an interrupted run, what it refuses."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iada.config.data import DataConfig, Split, SubwordConfig
from iada.config.method import augmentation
from iada.data.formats.readers import read_split
from iada.data.prepared import prepare as preparing
from iada.data.prepared.encoding import Workers
from iada.data.prepared.prepare import Preparation, finished_stages, prepare
from iada.data.prepared.prepared_corpus import PreparedCorpus
from iada.data.prepared.store import TokenStore
from iada.errors import DataError, RunError
from iada.storage import locked, sha256


@pytest.fixture
def preparation(mini_corpus: Path, tmp_path: Path) -> Preparation:
    data = DataConfig(folder=mini_corpus)
    subwords = SubwordConfig(vocabulary_size=450)
    return Preparation(data, subwords, tmp_path / "prepared", workers=1)


def manifest(folder: Path) -> str:
    return (folder / "manifest.json").read_text(encoding="utf-8")


def test_the_store_holds_what_encoding_in_memory_gives(preparation: Preparation) -> None:
    corpus = prepare(preparation)
    subwords = corpus.subwords()
    for split in ("train", "dev", "test"):
        stored = corpus.store(split, subwords)
        built = TokenStore.build(read_split(preparation.data, split), subwords)
        for left, right in ((stored.source, built.source), (stored.target, built.target)):
            assert np.array_equal(left.ids, right.ids)
            assert np.array_equal(left.offsets, right.offsets)
        assert np.array_equal(stored.document_starts, built.document_starts)
        assert list(stored.document_names) == list(built.document_names)
        counts = corpus.manifest["splits"][split]
        assert counts["documents"] == len(built.document_names)
        assert counts["sentences"] == len(built)
        assert counts["tokens"]["source"] == built.source.lengths().sum()


def test_the_manifest_vouches_for_every_file(preparation: Preparation) -> None:
    corpus = prepare(preparation)
    files = {
        path.relative_to(corpus.path).as_posix()
        for path in corpus.path.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert set(corpus.manifest["files"]) == files
    corpus.verify()
    names = corpus.path / "train" / "documents.names"
    names.write_bytes(names.read_bytes()[::-1])
    with pytest.raises(DataError, match=r"documents\.names has changed"):
        corpus.verify()


def test_only_the_note_of_what_was_verified_is_left_beside_the_result(
    preparation: Preparation,
) -> None:
    prepare(preparation)
    left = sorted(path.name for path in preparation.output.parent.iterdir())
    assert left == [".prepared.verified.json", "prepared"]


def test_every_file_is_flushed_before_the_corpus_gets_its_name(
    preparation: Preparation, disk_log: list[str]
) -> None:
    output = prepare(preparation).path
    # A part that is found by the next run is not made again, so it must be whole.
    begun, ended = (disk_log.index(f"rename .{name} {name}") for name in ("tokenizer", "train"))
    names = {path.name for path in (output / "train").iterdir()}
    assert {f"sync {name}" for name in names} <= set(disk_log[begun:ended])
    finished = disk_log.index(f"rename {preparation.partial.name} {output.name}")
    assert disk_log[finished - 1] == f"sync {preparation.partial.name}"
    assert disk_log[finished + 1] == f"sync {output.parent.name}"


def test_any_number_of_processes_gives_the_same_bytes(preparation: Preparation) -> None:
    alone = prepare(preparation)
    shared = prepare(replace(preparation, output=preparation.output.with_name("shared"), workers=2))
    assert manifest(alone.path) == manifest(shared.path)


def test_moses_tokenisation_works_in_processes_too(preparation: Preparation) -> None:
    subwords = SubwordConfig(vocabulary_size=450, pretokenize="moses")
    alone = prepare(replace(preparation, subwords=subwords))
    other = preparation.output.with_name("shared")
    shared = prepare(replace(preparation, subwords=subwords, output=other, workers=2))
    assert manifest(alone.path) == manifest(shared.path)
    assert alone.subwords().moses is not None


def test_a_finished_corpus_is_kept(
    preparation: Preparation, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(preparation)
    before = {path: path.stat().st_mtime_ns for path in preparation.output.rglob("*")}
    with caplog.at_level("INFO", "iada"):
        prepare(preparation)
    assert "prepared already" in caplog.text
    assert before == {path: path.stat().st_mtime_ns for path in preparation.output.rglob("*")}


def test_other_settings_do_not_overwrite_a_corpus(preparation: Preparation) -> None:
    prepare(preparation)
    other = replace(preparation, subwords=SubwordConfig(vocabulary_size=460))
    with pytest.raises(DataError, match=r"subwords\.vocabulary_size is 450 .* and 460 here"):
        prepare(other)


def test_other_files_do_not_overwrite_a_corpus(preparation: Preparation, tmp_path: Path) -> None:
    prepare(preparation)
    folder = tmp_path / "changed"
    shutil.copytree(preparation.data.folder, folder)
    for language in ("en", "de"):
        path = folder / f"dev.{language}"
        path.write_text(path.read_text(encoding="utf-8") + "\nx\n", encoding="utf-8")
    other = replace(preparation, data=DataConfig(folder=folder))
    with pytest.raises(RunError, match="prepared from other files"):
        prepare(other)


def test_a_folder_of_something_else_is_not_touched(preparation: Preparation) -> None:
    preparation.output.mkdir()
    (preparation.output / "thesis.tex").touch()
    with pytest.raises(RunError, match="holds files, but no prepared corpus"):
        prepare(preparation)
    assert (preparation.output / "thesis.tex").exists()


def test_complete_stages_are_not_done_again(
    preparation: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prepare(replace(preparation, output=preparation.output.with_name("whole")))
    encode = preparing._encode_split

    def stop_at_dev(preparation: Preparation, split: Split, workers: Workers) -> None:
        if split == "dev":
            raise KeyboardInterrupt
        encode(preparation, split, workers)

    with monkeypatch.context() as patch:
        patch.setattr(preparing, "_encode_split", stop_at_dev)
        with pytest.raises(KeyboardInterrupt):
            prepare(preparation)
    assert not preparation.output.exists()
    assert finished_stages(preparation) == ["checks", "tokenizer", "train"]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("learned again")

    monkeypatch.setattr(preparing, "_check_and_learn", refuse)
    corpus = prepare(preparation)
    assert manifest(corpus.path) == manifest(whole.path)


def test_work_of_another_plan_is_thrown_away(preparation: Preparation) -> None:
    partial = preparation.partial
    (partial / "tokenizer").mkdir(parents=True)
    (partial / "train").mkdir()
    (partial / "manifest.json").write_text(json.dumps({"format": 0}), encoding="utf-8")
    (partial / "stray").touch()
    corpus = prepare(preparation)
    corpus.verify()
    assert corpus.manifest["splits"]["train"]["documents"] == 30
    assert not (corpus.path / "stray").exists()


def test_a_damaged_plan_is_no_plan(preparation: Preparation) -> None:
    preparation.partial.mkdir()
    (preparation.partial / "manifest.json").write_text('{"format', encoding="utf-8")
    corpus = prepare(preparation)
    corpus.verify()
    assert corpus.manifest["splits"]["train"]["documents"] == 30


def test_two_runs_do_not_work_on_one_folder(preparation: Preparation) -> None:
    preparation.partial.mkdir()
    with (
        locked(preparation.partial, "preparing"),
        pytest.raises(RunError, match="Another process is preparing"),
    ):
        prepare(preparation)
    prepare(preparation)


def test_a_missing_test_split_is_left_out_a_missing_dev_split_is_not(
    preparation: Preparation, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(preparation.data.folder, folder)
    for language in ("en", "de"):
        (folder / f"test.{language}").unlink()
    corpus = prepare(replace(preparation, data=DataConfig(folder=folder)))
    assert corpus.splits == ("dev", "train")
    with pytest.raises(DataError, match="no split `test`, only dev, train"):
        corpus.store("test", corpus.subwords())
    (folder / "dev.de").unlink()
    other = replace(preparation, data=DataConfig(folder=folder), output=tmp_path / "without_dev")
    with pytest.raises(DataError, match=r"dev\.de does not exist"):
        prepare(other)
    assert not other.partial.exists()


def with_errors(source: Path, folder: Path) -> DataConfig:
    """Copy a corpus and break one document of its training split on one side."""
    shutil.copytree(source, folder)
    path = folder / "train.de"
    first, rest = path.read_bytes().split(b"\n", maxsplit=1)
    path.write_bytes(first + b"\xff\n" + rest)
    return DataConfig(folder=folder)


def test_strict_refuses_and_leaves_nothing_finished(
    preparation: Preparation, tmp_path: Path
) -> None:
    data = with_errors(preparation.data.folder, tmp_path / "broken")
    strict = replace(preparation, data=data, strict=True)
    with pytest.raises(DataError, match=r"train\.de:1: byte \d+ is not valid UTF-8"):
        prepare(strict)
    assert not strict.output.exists()
    assert finished_stages(strict) == []


def test_the_default_keeps_what_is_right_and_counts_the_rest(
    preparation: Preparation, tmp_path: Path
) -> None:
    whole = prepare(preparation)
    data = with_errors(preparation.data.folder, tmp_path / "broken")
    broken = replace(preparation, data=data, output=tmp_path / "broken_prepared")
    corpus = prepare(broken)
    expected = whole.manifest["splits"]["train"]["documents"] - 1
    assert corpus.manifest["splits"]["train"]["documents"] == expected
    assert corpus.manifest["checks"]["errors"] == 1
    findings = (corpus.path / "checks" / "findings.jsonl").read_text(encoding="utf-8")
    (error,) = [f for f in map(json.loads, findings.splitlines()) if f["severity"] == "error"]
    assert (error["kind"], error["line"]) == ("bad_utf8", 1)
    assert "bad_utf8" in corpus.summary()
    with pytest.raises(DataError, match="has 1 errors, all named in"):
        prepare(replace(broken, strict=True))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"format": 99}', "has format 99"),
    ],
)
def test_a_foreign_manifest_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        PreparedCorpus.open(tmp_path)


def test_a_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no manifest"):
        PreparedCorpus.open(tmp_path)


def test_a_file_of_another_size_is_noticed_at_once(preparation: Preparation) -> None:
    corpus = prepare(preparation)
    path = corpus.path / "train" / "source.ids"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"source\.ids should have \d+ bytes but has \d+"):
        PreparedCorpus.open(corpus.path)
    path.unlink()
    with pytest.raises(DataError, match=r"source\.ids should have \d+ bytes but is missing"):
        PreparedCorpus.open(corpus.path)


def test_changed_bytes_of_the_same_size_are_noticed(preparation: Preparation) -> None:
    corpus = prepare(preparation)
    path = corpus.path / "train" / "target.ids"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    message = r"target\.ids has changed since the corpus was prepared.* prepare the corpus again"
    for _ in range(2):
        with pytest.raises(DataError, match=message):
            PreparedCorpus.open(corpus.path)


def test_a_file_is_hashed_once_for_each_time_of_modification(
    preparation: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = prepare(preparation)
    hashed: list[str] = []

    def counting(path: Path) -> str:
        hashed.append(path.name)
        return sha256(path)

    monkeypatch.setattr("iada.data.prepared.prepared_corpus.sha256", counting)
    PreparedCorpus.open(corpus.path)
    assert hashed == []
    os.utime(corpus.path / "dev" / "source.ids", ns=(1, 1))
    for _ in range(2):
        PreparedCorpus.open(corpus.path)
    assert hashed == ["source.ids"]
    # A folder from elsewhere, or a damaged note, is verified as a whole.
    note = corpus.path.with_name(f".{corpus.path.name}.verified.json")
    note.write_text("[", encoding="utf-8")
    PreparedCorpus.open(corpus.path)
    assert len(hashed) == 1 + len(corpus.manifest["files"])


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_split_without_a_usable_document_is_refused_and_leaves_no_corpus(
    preparation: Preparation, tmp_path: Path, split: str
) -> None:
    shutil.copytree(preparation.data.folder, tmp_path / "broken")
    path = tmp_path / "broken" / f"{split}.de"
    documents = path.read_text(encoding="utf-8").split("\n\n")
    path.write_text("\n\n".join(f"one more\n{text}" for text in documents), encoding="utf-8")
    broken = replace(preparation, data=DataConfig(folder=tmp_path / "broken"))
    message = rf"(?s)No document of `data\.{split}` can be used.*count_mismatch, {len(documents)}\)"
    with pytest.raises(DataError, match=message):
        prepare(broken)
    assert not broken.output.exists()


def test_a_failed_inspection_leaves_no_corpus_and_is_resumed(preparation: Preparation) -> None:
    def fail(corpus: PreparedCorpus) -> None:
        assert corpus.manifest["splits"]["train"]["documents"] == 30
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        prepare(preparation, fail)
    assert not preparation.output.exists()
    assert finished_stages(preparation) == ["checks", "tokenizer", "train", "dev", "test"]
    prepare(preparation)
    assert preparation.output.is_dir()


def test_ciphers_belong_to_the_training_split_and_do_not_depend_on_workers(
    preparation: Preparation, tmp_path: Path
) -> None:
    ciphered = replace(
        preparation,
        subwords=SubwordConfig(vocabulary_size=600, pretokenize="moses"),
        augment=augmentation("cipher"),
    )
    corpus = prepare(ciphered)
    subwords = corpus.subwords()
    built = TokenStore.build(read_split(ciphered.data, "train"), subwords, ciphers=subwords.ciphers)
    stored = corpus.store("train", subwords, cipher_keys=(1, 2))
    assert len(stored.ciphered) == 2
    for left, right in zip(stored.sides, built.sides, strict=True):
        assert np.array_equal(left.ids, right.ids)
        assert np.array_equal(left.offsets, right.offsets)
    assert not list((corpus.path / "dev").glob("cipher*"))
    counts = corpus.manifest["splits"]["train"]["tokens"]
    assert counts["cipher-2"] == built.ciphered[1].lengths().sum()
    assert corpus.manifest["settings"]["augment.cipher_keys"] == [1, 2]
    assert "cipher" not in corpus.summary()
    with pytest.raises(DataError, match=r"cipher-1\.offsets is missing"):
        corpus.store("dev", subwords, cipher_keys=(1,))
    shared = prepare(replace(ciphered, output=tmp_path / "shared", workers=2))
    assert manifest(shared.path) == manifest(corpus.path)
