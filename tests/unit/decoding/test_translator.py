"""Load a finished run and translate: the same alone and in company."""

import shutil
from pathlib import Path

import pytest

from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.readers import read_documents
from iada.decoding.translator import DocumentTranslator
from iada.errors import ModelError, RunError


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture(scope="module")
def documents(mini_corpus: Path) -> list[Document]:
    return [
        document
        for document in read_documents(mini_corpus / "test.en")
        if isinstance(document, Document)
    ]


def test_documents_are_translated_alike_alone_and_together(
    translator: DocumentTranslator, documents: list[Document]
) -> None:
    translator.model.double()
    together = translator.translate(documents)
    assert together == [translator.translate([document])[0] for document in documents]
    assert [len(d) for d in together] == [len(d) for d in documents]
    assert [d.name for d in together] == [d.name for d in documents]
    assert len({sentence for d in together for sentence in d.sentences}) > 3


def test_a_sentence_is_unaffected_by_what_follows(
    translator: DocumentTranslator, documents: list[Document]
) -> None:
    translator.model.double()
    document = documents[0]
    whole = translator.translate([document])[0].sentences
    for stop in (1, 4):
        start = Document("start", document.sentences[:stop])
        assert translator.translate([start])[0].sentences == whole[:stop]


def test_the_run_tells_how_to_search_unless_told_otherwise(trained_run: Path) -> None:
    assert DocumentTranslator.load(trained_run).decode == DecodeConfig()
    greedy = DecodeConfig(beam=1)
    assert DocumentTranslator.load(trained_run, decode=greedy).engine.config == greedy


def test_an_unknown_engine_is_refused(trained_run: Path) -> None:
    with pytest.raises(ModelError, match="There is no engine `fast`"):
        DocumentTranslator.load(trained_run, engine="fast")  # type: ignore[arg-type]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no config\.yaml"):
        DocumentTranslator.load(tmp_path)


@pytest.mark.parametrize("weights", [None, b"abc"])
def test_a_model_without_readable_weights_is_refused(
    trained_run: Path, tmp_path: Path, weights: bytes | None
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    path = run / "model" / "model.safetensors"
    path.unlink()
    if weights is not None:
        path.write_bytes(weights)
    with pytest.raises(ModelError, match="model cannot be read: "):
        DocumentTranslator.load(run)


def test_an_unfinished_run_is_refused(trained_run: Path, tmp_path: Path) -> None:
    shutil.copy(trained_run / "config.yaml", tmp_path)
    with pytest.raises(RunError, match=r"holds no finished model.*--resume"):
        DocumentTranslator.load(tmp_path)
