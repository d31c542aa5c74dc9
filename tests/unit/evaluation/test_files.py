"""Files of translations: line by line if possible, document by document if not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.score_files import compare_files, score_files
from iada.evaluation.scores import evaluate

Documents = Callable[..., list[Document]]
REFERENCE = "a b c d e\nf g h i j\n\nk l m n o\n"
FEW = EvaluateConfig(resamples=20)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


Write = Callable[[str, str], Path]


def test_the_reference_file_tells_where_documents_begin(write: Write, documents: Documents) -> None:
    # The second sentence was translated by nothing, which parts no document.
    hypothesis = write("h", "a b c d e\n\n\nk l m n o\n")
    found = score_files(hypothesis, write("r", REFERENCE), boundaries="blank_line")
    references = documents(["a b c d e", "f g h i j"], ["k l m n o"])
    hypotheses = documents(["a b c d e", ""], ["k l m n o"])
    assert found == evaluate(hypotheses, references)


def test_text_where_the_reference_parts_documents_is_refused(write: Write) -> None:
    message = r"h:2: has text where the reference separates two documents.*\(1 and 2 here\)"
    with pytest.raises(DataError, match=message):
        score_files(write("h", "a\nb\n\n"), write("r", "a\n\nb\n"), boundaries="blank_line")


@pytest.mark.parametrize("text", ["", "\n"])
def test_files_without_a_sentence_are_refused(write: Write, text: str) -> None:
    path = write("h", text)
    with pytest.raises(DataError, match="The references hold no sentence"):
        score_files(path, path, boundaries="blank_line")


@pytest.mark.parametrize("boundaries", ["none", "blank_line"])
def test_files_with_other_lines_and_documents_are_refused(write: Write, boundaries: Any) -> None:
    reference = write("r", "a\nb\n" if boundaries == "none" else "a\n\nb\n")
    with pytest.raises(DataError, match=r"h has 1 lines but .*r has [23]\. Score the translation"):
        score_files(write("h", "a\n"), reference, boundaries=boundaries)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("a b c d e f g h i j\n\nk l m n o\n", 100),
        # The second line belongs to two sentences and stays with one of them.
        ("a b c\nd e f\ng h i j\n\nk l m n o\n", 85),
    ],
)
def test_the_same_documents_in_other_lines_are_realigned(
    write: Write, text: str, least: int, caplog: pytest.LogCaptureFixture
) -> None:
    reference = write("r", REFERENCE)
    found: dict[str, Any] = score_files(
        write("h", text), reference, reference, boundaries="blank_line"
    )
    assert found["d_bleu"]["score"] == pytest.approx(100)
    assert found["s_bleu"]["score"] >= least - 1e-6
    assert found["realigned"] == 1
    assert "1 of 2 documents have another number of sentences" in caplog.text
    config = EvaluateConfig(realign=False)
    as_given = score_files(
        write("h", text), reference, reference, boundaries="blank_line", config=config
    )
    assert as_given["d_bleu"] == found["d_bleu"]
    assert "s_bleu" not in as_given


def test_as_many_lines_in_other_places_are_realigned(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    # Four lines as well, but the second line parts the documents.
    hypothesis = write("h", "a b c d e f g h i j\n\nk l m\nn o\n")
    found = score_files(hypothesis, write("r", REFERENCE), boundaries="blank_line")
    assert found["realigned"] == 2
    assert "s_bleu" in found
    assert "2 of 2 documents have another number of sentences" in caplog.text


def test_a_blank_line_too_many_at_the_end_is_no_loss(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    reference = write("r", REFERENCE)
    found = score_files(write("h", REFERENCE + "\n"), reference, boundaries="blank_line")
    assert found == score_files(reference, reference, boundaries="blank_line")
    assert not caplog.records


def test_the_source_must_have_the_lines_of_the_reference(write: Write) -> None:
    reference = write("r", REFERENCE)
    with pytest.raises(DataError, match=r"s has 1 lines but .* must be aligned line by line"):
        score_files(reference, reference, write("s", "x\n"), boundaries="blank_line")


def test_systems_are_named_by_their_files(write: Write) -> None:
    reference = write("r", REFERENCE)
    others = [write("one", REFERENCE), write("two", REFERENCE.replace("a", "x"))]
    found: dict[str, Any] = compare_files(
        others, reference, baseline=write("base", REFERENCE), boundaries="blank_line", config=FEW
    )
    assert list(found["systems"]) == ["base", "one", "two"]
    assert found["baseline"] == "base"
    systems = found["significance"]["s_bleu"]["systems"]
    assert systems["one"]["p_value"] == 1.0
    assert systems["two"]["difference"] < 0


def test_files_of_one_name_are_told_apart_by_their_folders(write: Write) -> None:
    paths = [write("one/test.de", REFERENCE), write("two/test.de", REFERENCE)]
    reference = write("r", REFERENCE)
    found: dict[str, Any] = compare_files(paths, reference, baseline=None, boundaries="blank_line")
    assert list(found["systems"]) == [str(path) for path in paths]
    assert "significance" not in found
    with pytest.raises(DataError, match="is given twice"):
        compare_files([paths[0]] * 2, reference, baseline=None, boundaries="blank_line")
