"""Scores of a run: each in its place, none lost."""

import json
import shutil
from pathlib import Path

import pytest

from iada.decoding.translator import DocumentTranslator
from iada.errors import RunError
from iada.evaluation.contrastive import contrastive_accuracy, read_contrastive
from iada.evaluation.files import score_files
from iada.evaluation.runs import add_scores, contrast_run, score_run
from iada.training.folder import RunFolder


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to."""
    return shutil.copytree(trained_run, tmp_path / "run")


def test_scores_are_merged(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert add_scores(folder, {"a": 1, "b": 1}) == {"a": 1, "b": 1}
    assert add_scores(folder, {"b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert json.loads(folder.scores_file.read_text(encoding="utf-8")) == {"a": 1, "b": 2, "c": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_scores_that_cannot_be_read_are_not_overwritten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.scores_file.write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"scores\.json is not valid JSON"):
        add_scores(folder, {"a": 1})
    assert folder.scores_file.read_text(encoding="utf-8") == "{"


def test_a_run_is_translated_and_scored(
    run: Path, mini_corpus: Path, translator: DocumentTranslator
) -> None:
    scores, path = score_run(run, translator)
    translation, reference = run / "translations" / "test.de", mini_corpus / "test.de"
    assert path == run / "scores.json"
    assert json.loads(path.read_text(encoding="utf-8")) == scores
    expected = score_files(translation, reference, boundaries="blank_line")
    assert scores["s_bleu"] == expected["s_bleu"]
    assert scores["d_bleu"] == expected["d_bleu"]
    details = scores["translation"]
    assert isinstance(details, dict)
    lines = reference.read_text(encoding="utf-8").split("\n")[:-1]
    assert details["documents"] == lines.count("") + 1
    assert details["sentences"] == len(lines) - lines.count("")


def test_an_existing_translation_is_scored_as_it_is(run: Path, mini_corpus: Path) -> None:
    folder = run / "translations"
    folder.mkdir()
    shutil.copy(mini_corpus / "test.de", folder)
    (folder / "test.de.json").write_text("{}", encoding="utf-8")
    scores, _ = score_run(run)
    s_bleu = scores["s_bleu"]
    assert isinstance(s_bleu, dict)
    assert s_bleu["score"] == pytest.approx(100)


def test_contrastive_scores_join_the_others(
    run: Path, mini_corpus: Path, translator: DocumentTranslator
) -> None:
    add_scores(RunFolder(run), {"s_bleu": {"score": 1.0}})
    path = mini_corpus / "contrastive.json"
    result, scores_file = contrast_run(run, path, translator=translator)
    expected = contrastive_accuracy(read_contrastive(path), translator.score, context=3)
    assert result == expected | {"set": "contrastive.json"}
    scores = json.loads(scores_file.read_text(encoding="utf-8"))
    assert scores == {"s_bleu": {"score": 1.0}, "contrastive": result}
    assert result["total"] == 18
