"""The flat token store: every sentence once, each followed by `<sep>`."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.documents import Document, ParallelDocument
from iada.data.prepared.store import Side, StoreWriter, TokenStore, id_type
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.errors import DataError


def parallel(name: str, source: list[str], target: list[str]) -> ParallelDocument:
    return ParallelDocument(Document(name, tuple(source)), Document(name, tuple(target)))


def test_sentences_lie_one_after_the_other_each_with_its_separator() -> None:
    side = Side.of([[10, 11], [], [12]], sep=4)
    assert side.ids.tolist() == [10, 11, 4, 4, 12, 4]
    assert side.offsets.tolist() == [0, 3, 4, 6]
    assert side.lengths().tolist() == [2, 0, 1]


def test_no_sentences_give_an_empty_side() -> None:
    side = Side.of([], sep=4)
    assert side.ids.tolist() == []
    assert side.offsets.tolist() == [0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(6, 99), max_size=5), max_size=8))
def test_every_sentence_can_be_read_back(encoded: list[list[int]]) -> None:
    side = Side.of(encoded, sep=4)
    slices = [side.ids[start:stop].tolist() for start, stop in pairwise(side.offsets.tolist())]
    assert slices == [[*ids, 4] for ids in encoded]


def test_sentences_know_their_document(subwords: Subwords) -> None:
    documents = [
        parallel("a", ["the cat", "sat"], ["die Katze", "sah"]),
        parallel("b", ["it", "", "again"], ["sie", "", "die"]),
    ]
    store = TokenStore.build(documents, subwords)
    assert len(store) == 5
    assert store.document_of.tolist() == [0, 0, 1, 1, 1]
    assert store.document_starts.tolist() == [0, 2, 5]
    assert store.document_names == ("a", "b")


def test_both_sides_hold_the_encoded_sentences_in_order(subwords: Subwords) -> None:
    document = parallel("a", ["the cat", "sat"], ["die Katze", ""])
    store = TokenStore.build([document], subwords)
    sep = subwords.special.sep
    for side, sentences in ((store.source, ["the cat", "sat"]), (store.target, ["die Katze", ""])):
        first, second = subwords.encode(sentences)
        assert side.ids.tolist() == [*first, sep, *second, sep]
        assert side.ids.dtype == np.int32


def encoded(*sentences: list[int]) -> npt.NDArray[np.int32]:
    return np.array([i for ids in sentences for i in (*ids, 4)], dtype=np.int32)


def write(folder: Path, *, dtype: str) -> StoreWriter:
    writer = StoreWriter(folder, sep=4, dtype=dtype)
    writer.add(encoded([10, 11], []), encoded([20], [21, 22]), [1, 1], ["a", "b"])
    writer.add(encoded([], [], []), encoded([], [], []), [3], ["c"])
    writer.add(encoded(), encoded(), [], [])
    writer.add(encoded([12]), encoded([23]), [1], ["ü"])
    writer.close()
    return writer


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_a_written_store_is_read_back(tmp_path: Path, special: SpecialIds, dtype: str) -> None:
    writer = write(tmp_path, dtype=dtype)
    store = TokenStore.open(tmp_path, special, dtype=dtype)
    assert store.source.ids.dtype == np.dtype(dtype)
    assert store.source.ids.tolist() == [10, 11, 4, 4, 4, 4, 4, 12, 4]
    assert store.source.offsets.tolist() == [0, 3, 4, 5, 6, 7, 9]
    assert store.target.ids.tolist() == [20, 4, 21, 22, 4, 4, 4, 4, 23, 4]
    assert store.target.offsets.tolist() == [0, 2, 5, 6, 7, 8, 10]
    assert store.document_starts.tolist() == [0, 1, 2, 5, 6]
    assert store.document_of.tolist() == [0, 1, 2, 2, 2, 3]
    assert list(store.document_names) == ["a", "b", "c", "ü"]
    assert store.document_names[1:3] == ["b", "c"]
    assert len(store.document_names) == 4
    assert (writer.documents, writer.sentences) == (4, 6)
    assert writer.tokens == {"source": 3, "target": 4}


def test_an_opened_store_is_mapped_not_loaded(tmp_path: Path, special: SpecialIds) -> None:
    write(tmp_path, dtype="<u2")
    store = TokenStore.open(tmp_path, special, dtype="<u2")
    assert isinstance(store.source.ids, np.memmap)
    assert not store.source.ids.flags.writeable


def test_an_empty_store_can_be_opened(tmp_path: Path, special: SpecialIds) -> None:
    StoreWriter(tmp_path, sep=4, dtype="<u2").close()
    store = TokenStore.open(tmp_path, special, dtype="<u2")
    assert len(store) == 0
    assert list(store.document_names) == []


def test_sentences_and_document_sizes_must_agree(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path, sep=4, dtype="<u2")
    with pytest.raises(ValueError, match="1 target sentences for documents of 2"):
        writer.add(encoded([10], [11]), encoded([20]), [2], ["a"])
    writer.close()


@pytest.mark.parametrize("name", ["source.ids", "target.offsets", "documents.starts"])
def test_missing_and_cut_files_are_refused(tmp_path: Path, special: SpecialIds, name: str) -> None:
    write(tmp_path, dtype="<u2")
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{name} is missing or damaged"):
        TokenStore.open(tmp_path, special, dtype="<u2")
    path.unlink()
    with pytest.raises(DataError, match=rf"{name} is missing or damaged"):
        TokenStore.open(tmp_path, special, dtype="<u2")


def test_ids_take_two_bytes_as_long_as_the_vocabulary_allows() -> None:
    assert id_type(65_536) == "<u2"
    assert id_type(65_537) == "<u4"
