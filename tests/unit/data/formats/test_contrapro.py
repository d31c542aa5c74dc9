"""Contrastive sets: both forms, the layout of the published set, and what is refused."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iada.data.formats.contrapro import (
    ContrastiveItem,
    read_contrastive,
    read_contrastive_documents,
)
from iada.errors import DataError

RECORD: dict[str, Any] = {
    "document id": "film",
    "segment id": 3,
    "src segment": "It sleeps.",
    "ref segment": "Er schläft.",
    "src pronoun": "It",
    "ref pronoun": "Er",
    "ante distance": 2,
    "errors": [{"contrastive": "Sie schläft."}, {"contrastive": "Es schläft."}],
}


def write_set(folder: Path, *records: dict[str, Any], german: str = "Er schläft.") -> Path:
    documents = folder / "set"
    documents.mkdir()
    (documents / "film.en").write_text("A dog.\nHush.\nIt sleeps.\nEnd.\n", encoding="utf-8")
    (documents / "film.de").write_text(f"Ein Hund.\nStill.\n{german}\nEnde.\n", encoding="utf-8")
    path = folder / "set.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def test_contrapro_takes_its_context_from_the_documents_folder(tmp_path: Path) -> None:
    path = write_set(tmp_path, RECORD)
    expected = ContrastiveItem(
        name="film:3",
        source_context=("A dog.", "Hush."),
        target_context=("Ein Hund.", "Still."),
        source="It sleeps.",
        reference="Er schläft.",
        variants=("Sie schläft.", "Es schläft."),
        reference_class="er",
        distance=2,
    )
    assert read_contrastive(path) == [expected]
    (tmp_path / "set").rename(tmp_path / "elsewhere")
    assert read_contrastive(path, tmp_path / "elsewhere") == [expected]


@pytest.mark.parametrize(
    ("changes", "german"),
    [({"segment id": 2}, "Er schläft."), ({"segment id": 9}, "Er schläft."), ({}, "Er wacht.")],
)
def test_a_line_that_is_not_the_named_segment_is_refused(
    tmp_path: Path, changes: dict[str, Any], german: str
) -> None:
    path = write_set(tmp_path, RECORD | changes, german=german)
    with pytest.raises(DataError, match=r"film\.(en|de): line \d is not the segment"):
        read_contrastive(path)


def test_json_lines_hold_their_own_context(tmp_path: Path) -> None:
    record = {
        "src": "it",
        "ref": "er",
        "contrastive": ["sie", "es"],
        "ref_class": "er",
        "ante_distance": None,
        "src_context": ["s1", "s2", "s3"],
        "trg_context": ["t3"],
    }
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(record) + "\n\n" + json.dumps(record) + "\n", encoding="utf-8")
    first, second = read_contrastive(path)
    assert first.source_context == ("s1", "s2", "s3")
    assert first.target_context == ("t3",)
    assert first.distance is None
    assert (first.name, second.name) == ("1", "2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", r"set\.json:1: not valid JSON"),
        ("[\n\n{,}]", r"set\.json:3: not valid JSON"),
        ("[]", r"set\.json holds no item"),
        ('[{"segment id": 1}]', r"lacks the field 'document id'"),
        ('{"a": 1}', r"must hold a list of items"),
        ('["text"]', r"set\.json: item 1 is not in ContraPro's form"),
        (
            '[{"document id": "x", "segment id": "y"}]',
            r"item 1: 'segment id' must be a whole number",
        ),
        ('[{"document id": null, "segment id": 1}]', r"item 1 is not in ContraPro's form"),
        (r'[{"document id": "a\u0000", "segment id": 1}]', r"item 1 is not in ContraPro's form"),
        ("[" * 100_000, r"set\.json:1: not usable JSON \(nested too deeply\)"),
        ('[{"segment id": NaN}]', r"set\.json:1: not usable JSON \(NaN is not a JSON number\)"),
        ("[" + "9" * 5000 + "]", r"a number has too many digits"),
        ('[{"a": 1, "a": 2}]', r"an object has the same key twice"),
    ],
)
def test_a_set_that_is_not_contrapro_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_contrastive(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contrastive": []}, "needs a source, a reference and at least one variant"),
        ({"ref": ""}, "needs a source, a reference and at least one variant"),
        ({"src": 5}, r"set\.jsonl:1: item 1: 'src' must be text"),
        ({"ante_distance": "2"}, "item 1: 'ante_distance' must be a whole number"),
        ({"ante_distance": True}, "item 1: 'ante_distance' must be a whole number"),
        ({"intrasegmental": 1}, "item 1: 'intrasegmental' must be true, false or null"),
        ({"src_context": [5]}, "item 1: 'src_context' must be text"),
        ({"src_context": "s"}, "item 1: 'src_context' must be a list of texts"),
        ({"ref": "a\ud800"}, "item 1: 'ref' holds a line break or a lone surrogate"),
        ({"contrastive": ["a\nb"]}, "item 1: 'contrastive' holds a line break"),
    ],
)
def test_an_item_that_cannot_be_scored_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    record = {
        "src": "it",
        "ref": "er",
        "contrastive": ["sie"],
        "ref_class": "er",
        "src_context": [],
        "trg_context": [],
    }
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(record | changes), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_contrastive(path)


def test_a_broken_line_of_json_lines_is_located(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("{}\n\n{bad\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"set\.jsonl:3: not valid JSON"):
        read_contrastive(path)


def test_a_set_that_is_not_utf8_is_located(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_bytes(b'[\n"\xfc"]')
    with pytest.raises(DataError, match=r"set\.json:2: byte 3 is not valid UTF-8"):
        read_contrastive(path)


def test_a_missing_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"set\.json does not exist"):
        read_contrastive(tmp_path / "set.json")


def test_the_mini_corpus_has_its_set_beside_its_documents(mini_corpus: Path) -> None:
    items = read_contrastive(mini_corpus / "contrastive.json")
    # One item for each of 3 classes and distances 0 to 5.
    assert Counter(item.reference_class for item in items) == {"er": 6, "sie": 6, "es": 6}
    assert Counter(item.distance for item in items) == dict.fromkeys(range(6), 3)
    assert all(len(item.variants) == 2 for item in items)


def test_contrapro_is_read_whole(real_data: Path) -> None:
    items = read_contrastive(real_data / "contrapro" / "contrapro.jsonl")
    assert len(items) == 12_000
    # SOURCE.md beside the file: classes were recovered by comparing the reference with its
    # variants, which misplaces 14 of the original 4,000 of each class.
    assert Counter(item.reference_class for item in items) == {"er": 4014, "sie": 4000, "es": 3986}
    assert Counter(len(item.variants) for item in items) == {2: 11_969, 3: 31}


def test_the_published_layout_has_a_folder_per_year_and_names_the_german_file(
    tmp_path: Path,
) -> None:
    documents = tmp_path / "documents" / "1922"
    documents.mkdir(parents=True)
    # Segments and documents differ in white space.
    (documents / "1922_1_2.en").write_text("A dog.\nIt  sleeps .\n", encoding="utf-8")
    with gzip.open(documents / "1922_1_2.de.gz", "wt", encoding="utf-8") as file:
        file.write("Ein Hund.\nEr schläft.\n")
    record = RECORD | {"document id": "1922_1_2.de", "segment id": 2, "intrasegmental": False}
    path = tmp_path / "contrapro.json.gz"
    path.write_bytes(gzip.compress(json.dumps([record]).encode()))
    (item,) = read_contrastive(path, tmp_path / "documents")
    assert item.name == "1922_1_2:2"
    assert (item.source_context, item.target_context) == (("A dog.",), ("Ein Hund.",))
    assert (item.source, item.intrasegmental) == ("It sleeps.", False)


def test_a_packed_set_has_its_documents_beside_it(tmp_path: Path) -> None:
    plain = write_set(tmp_path, RECORD)
    packed = tmp_path / "set.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_contrastive(packed) == read_contrastive(plain)


def test_files_of_the_folder_itself_win_over_those_below(tmp_path: Path) -> None:
    path = write_set(tmp_path, RECORD)
    (tmp_path / "set" / "year").mkdir()
    (tmp_path / "set" / "year" / "film.en").write_text("other\n", encoding="utf-8")
    assert read_contrastive(path)[0].source_context == ("A dog.", "Hush.")


@pytest.mark.parametrize("name", ["absent", "../film", "x" * 5000])
def test_a_missing_document_is_named(tmp_path: Path, name: str) -> None:
    path = write_set(tmp_path, RECORD, RECORD | {"document id": name})
    with pytest.raises(DataError, match=r"item 2 needs .*does not exist or is not a file"):
        read_contrastive(path)


def test_an_item_is_a_document_that_ends_in_the_reference(tmp_path: Path) -> None:
    path = write_set(tmp_path, RECORD)
    (document,) = read_contrastive_documents(path)
    assert document.source.sentences == ("A dog.", "Hush.", "It sleeps.")
    assert document.target.sentences == ("Ein Hund.", "Still.", "Er schläft.")


def test_an_item_of_uneven_context_is_a_document_of_the_shorter_one() -> None:
    item = ContrastiveItem("i", ("s1", "s2"), ("t2",), "it", "er", ("sie",), "er", 1)
    assert item.document().source.sentences == ("s2", "it")
    assert item.document().target.sentences == ("t2", "er")
