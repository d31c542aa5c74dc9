"""What is written reads back as the same documents."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iada.config.data import DataConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import describe_written, file_format, read_split, write_split
from iada.data.formats.text import document_lines, is_separator
from iada.errors import ConfigError, DataError

SENTENCE = st.text(
    st.characters(exclude_characters="\n\r\t\0\ufeff", exclude_categories=["Cs"]), max_size=8
)
FORMS = [
    DataConfig(train="train.{language}", boundaries="blank_line"),
    DataConfig(train="train.{language}.gz", boundaries="marker"),
    DataConfig(train="sub/train.tsv"),
    DataConfig(train="train.jsonl.gz"),
    DataConfig(train="train.csv"),
    DataConfig(train="train.parquet"),
]
TRIMMED = [
    DataConfig(train="train.bars", boundaries="marker"),
    DataConfig(train="train.tmx"),
    DataConfig(train="train.xlf"),
]
"""Formats in which white space around a sentence is not part of it."""


def documents_of(sizes: list[list[tuple[str, str]]]) -> list[ParallelDocument]:
    return [
        ParallelDocument(
            Document(str(i), tuple(s for s, _ in pairs)),
            Document(str(i), tuple(t for _, t in pairs)),
        )
        for i, pairs in enumerate(sizes)
    ]


def sentences(documents: list[ParallelDocument]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(d.source.sentences, d.target.sentences) for d in documents]


@pytest.mark.parametrize("data", FORMS, ids=lambda data: data.train)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    pairs=st.lists(
        st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=3), min_size=2, max_size=4
    )
)
def test_documents_survive(
    tmp_path: Path, data: DataConfig, pairs: list[list[tuple[str, str]]]
) -> None:
    data = replace(data, folder=tmp_path)
    is_text = file_format(data, "train") == "text"
    # A separator is not a sentence, and a file needs one.
    pairs = [
        [
            ("a", "b") if is_text and any(is_separator(s, data.boundaries) for s in pair) else pair
            for pair in document
        ]
        for document in pairs
    ] + [[("x", "y")]]
    documents = documents_of(pairs)
    write_split(data, "train", documents)
    assert sentences(read_split(data, "train")) == sentences(documents)
    first = data.paths("train")[0].read_bytes()
    write_split(data, "train", documents)
    assert data.paths("train")[0].read_bytes() == first
    # Where a packed file keeps the time of day.
    assert not data.train.endswith(".gz") or first[4:8] == bytes(4)


@pytest.mark.parametrize("data", TRIMMED, ids=lambda data: data.train)
def test_documents_survive_where_white_space_is_not_text(tmp_path: Path, data: DataConfig) -> None:
    data = replace(data, folder=tmp_path)
    documents = documents_of([[("a < b & c", "A"), ("d | e", '"D"')], [("f", "F")]])
    write_split(data, "train", documents)
    assert sentences(read_split(data, "train")) == sentences(documents)


def test_characters_that_a_format_cannot_hold_are_refused(tmp_path: Path) -> None:
    for name, text, what in (
        ("train.tsv", "a\tb", r"contains '\\t', which separates cells"),
        ("train.bars", "a ||| b", r"contains '\|\|\|', which separates cells"),
        ("train.tmx", "a\x1cb", "contains a control character, which XML cannot hold"),
        ("train.xlf", "a\fb", "contains a control character, which XML cannot hold"),
    ):
        data = DataConfig(folder=tmp_path, train=name, boundaries="marker")
        with pytest.raises(DataError, match=what):
            write_split(data, "train", documents_of([[(text, "c")]]))


def test_a_document_without_sentences_on_one_side_survives(tmp_path: Path) -> None:
    data = DataConfig(folder=tmp_path, boundaries="marker")
    documents = documents_of([[("a", ""), ("", "b")], [("c", "d")]])
    write_split(data, "train", documents)
    assert (tmp_path / "train.en").read_text("utf-8") == "<d>\na\n\n<d>\nc\n"
    assert sentences(read_split(data, "train")) == sentences(documents)


@pytest.mark.parametrize(("boundaries", "text"), [("blank_line", " "), ("marker", " <d>")])
def test_a_sentence_that_would_separate_documents_is_refused(boundaries: str, text: str) -> None:
    with pytest.raises(DataError, match=rf"would separate documents .*{boundaries}"):
        list(document_lines(["a", text], boundaries, is_first=True))  # type: ignore[arg-type]


def test_text_without_boundaries_holds_one_document() -> None:
    assert list(document_lines(["a", "", "<d>"], "none", is_first=True)) == ["a\n", "\n", "<d>\n"]
    with pytest.raises(ValueError, match="need boundaries"):
        list(document_lines(["a"], "none", is_first=False))


@pytest.mark.parametrize("name", ["train.tsv", "train.jsonl"])
def test_one_file_can_be_read_in_both_directions(tmp_path: Path, name: str) -> None:
    data = DataConfig(folder=tmp_path, train=name)
    write_split(data, "train", documents_of([[("a", "b")], [("c", "d")]]))
    back = replace(data, source_language="de", target_language="en")
    assert sentences(read_split(back, "train")) == [(("b",), ("a",)), (("d",), ("c",))]


def test_a_form_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    data = DataConfig(folder=tmp_path, train="train.{side}.sgm")
    with pytest.raises(ConfigError, match=r"`sgm` is only read\. Choose one of `tsv`"):
        write_split(data, "train", [])


@pytest.mark.parametrize("data", FORMS, ids=lambda data: data.train)
def test_names_and_forms_that_can_be_written_stay(data: DataConfig, tmp_path: Path) -> None:
    data = replace(data, prepared=tmp_path / "prepared")
    expected = replace(data, folder=tmp_path, prepared=None)
    assert describe_written(data, tmp_path, several=True) == expected


@pytest.mark.parametrize(
    "data",
    [
        DataConfig(train="train.{side}.sgm", dev="dev.jsonl"),
        DataConfig(train="train.tags.{language}"),
        DataConfig(train="train.json", format="dialogue", dev="dev.json", test="test.json"),
        DataConfig(boundaries="none"),
    ],
    ids=["sgm", "tags", "dialogue", "no_boundaries"],
)
def test_others_become_text_with_markers(data: DataConfig, tmp_path: Path) -> None:
    written = describe_written(data, tmp_path, several=True)
    assert (written.format, written.boundaries) == ("text", "marker")
    assert written.paths("train") == (tmp_path / "train.en", tmp_path / "train.de")
    assert file_format(written, "dev") == "text"


def test_one_document_needs_no_boundaries(tmp_path: Path) -> None:
    data = DataConfig(boundaries="none")
    assert describe_written(data, tmp_path) == replace(data, folder=tmp_path)
