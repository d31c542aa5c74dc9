"""Scores of a run: each in its place, none lost."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.cli.main import main
from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig
from iada.config.evaluate import EvaluateConfig
from iada.data.documents import ParallelDocument
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.readers import read_documents
from iada.decoding.translator import DocumentTranslator
from iada.errors import DataError, RunError
from iada.evaluation.contrastive import contrastive_accuracy, generative_accuracy, source_documents
from iada.evaluation.score_files import score_files, score_split
from iada.evaluation.score_runs import (
    add_scores,
    contrast_run,
    generate_run,
    measure_context_use,
    score_run,
)
from iada.runs.folder import RunFolder


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


def write_test_split(corpus: Path, folder: Path, form: str) -> str:
    """Write the test split in another form; return the name of its file."""
    documents = [
        (document.name, document.source.sentences, document.target.sentences)
        for document in read_documents(corpus / "test.en", corpus / "test.de")
        if isinstance(document, ParallelDocument)
    ]
    name = f"test.{'json' if form == 'dialogue' else form}"
    if form == "tsv":
        rows = [
            f"{n}\t{s}\t{t}"
            for n, source, target in documents
            for s, t in zip(source, target, strict=True)
        ]
        text = "\n".join(["document\tsource\ttarget", *rows])
    elif form == "jsonl":
        text = "\n".join(
            json.dumps({"id": n, "source": list(source), "target": list(target)})
            for n, source, target in documents
        )
    else:
        # Every other speaker is a customer, whose own words are German.
        text = json.dumps(
            {
                n: [
                    {"speaker": "agent", "source": s, "target": t}
                    if number % 2
                    else {"speaker": "customer", "source": t, "target": s}
                    for number, (s, t) in enumerate(zip(source, target, strict=True))
                ]
                for n, source, target in documents
            }
        )
    (folder / name).write_text(text + "\n", encoding="utf-8")
    return name


@pytest.mark.parametrize("form", ["tsv", "jsonl", "dialogue"])
def test_the_form_of_the_test_split_does_not_change_its_scores(
    run: Path, mini_corpus: Path, tmp_path: Path, translator: DocumentTranslator, form: str
) -> None:
    expected, _ = score_run(run, translator)
    shutil.rmtree(run / "translations")
    folder = RunFolder(run)
    corpus = shutil.copytree(mini_corpus, tmp_path / "corpus")
    config = folder.config()
    name = write_test_split(mini_corpus, corpus, form)
    data = replace(config.data, folder=corpus, test=name)
    write_yaml(folder.config_file, to_mapping(replace(config, data=data)))
    scores, _ = score_run(run, translator)
    for score in ("s_bleu", "d_bleu", "chrf"):
        assert scores[score] == expected[score]
    assert (run / "translations" / ("test.de" if form == "dialogue" else name)).is_file()


def test_a_translation_of_something_else_is_not_scored(
    run: Path, mini_corpus: Path, tmp_path: Path, translator: DocumentTranslator
) -> None:
    corpus = shutil.copytree(mini_corpus, tmp_path / "corpus")
    data = DataConfig(folder=corpus, test=write_test_split(mini_corpus, corpus, "dialogue"))
    path = tmp_path / "short.de"
    path.write_text("Ja.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"short\.de has 1 lines, but the translation .* has \d+"):
        score_split(path, data, "test")


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


def test_the_source_is_known_and_a_baseline_is_compared(
    run: Path, mini_corpus: Path, translator: DocumentTranslator, tmp_path: Path
) -> None:
    config = EvaluateConfig(resamples=20)
    plain: dict[str, Any] = score_run(run, translator)[0]
    assert "copied" in plain["output"]
    # Against itself, by its folder, and against the reference, by its file.
    same: dict[str, Any] = score_run(run, baseline=run, config=config)[0]
    assert same["significance"]["d_bleu"]["systems"]["hypothesis"]["p_value"] == 1.0
    better: dict[str, Any] = score_run(run, baseline=mini_corpus / "test.de", config=config)[0]
    comparison = better["significance"]["s_bleu"]["systems"]["hypothesis"]
    assert comparison["difference"] == pytest.approx(better["s_bleu"]["score"] - 100)
    # It stays until the run is translated anew.
    assert "significance" in score_run(run)[0]
    (run / "translations" / "test.de").unlink()
    assert "significance" not in score_run(run, translator)[0]


def test_a_baseline_translates_what_is_missing(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "plain")
    config = EvaluateConfig(resamples=20)
    found: dict[str, Any] = score_run(run, baseline=other, config=config)[0]
    assert (other / "translations" / "test.de").is_file()
    # The same model says the same.
    assert found["baseline"]["s_bleu"]["score"] == found["s_bleu"]["score"]


def test_a_run_whose_corpus_has_moved_is_scored_where_it_is(
    run: Path, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = shutil.copytree(mini_corpus, tmp_path / "moved")
    config = run / "config.yaml"
    text = config.read_text(encoding="utf-8").replace(str(mini_corpus), str(tmp_path / "gone"))
    config.write_text(text, encoding="utf-8")
    assert main(["evaluate", str(run)]) == 2
    assert "If the corpus has moved, say where it is: `--data.folder" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--data.folder", str(moved), "--baseline", str(run)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["translation"]["sentences"] > 0
    assert (run / "translations" / "test.de").is_file()
    assert main(["inspect", str(run)]) == 2
    assert main(["inspect", str(run), "--data.folder", str(moved)]) == 0
    # Another corpus has a translation of its own, and leaves the scores of the run alone.
    config.write_text(text.replace(str(tmp_path / "gone"), str(moved)), encoding="utf-8")
    other = shutil.copytree(mini_corpus, tmp_path / "other")
    for code in ("en", "de"):
        lines = (other / f"test.{code}").read_text(encoding="utf-8").split("\n\n")
        (other / f"test.{code}").write_text("\n\n".join(lines[:2]) + "\n", encoding="utf-8")
    before = (run / "scores.json").read_bytes()
    assert main(["evaluate", str(run), "--data.folder", str(other)]) == 0
    assert (run / "scores.json").read_bytes() == before
    (folder,) = (run / "translations").glob("other-*")
    assert {path.name for path in folder.iterdir()} == {"test.de", "test.de.json", "scores.json"}


def test_rows_carry_the_names_of_the_runs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(run, tmp_path / "plain")
    assert main(["evaluate", str(run), "--baseline", str(other), "--resamples", "20"]) == 0
    table = capsys.readouterr().err
    assert "hypothesis" not in table
    assert [line.split()[0] for line in table.splitlines() if line.startswith(("run", "plain"))][
        :2
    ] == ["run", "plain"]


def test_generative_scores_join_the_others(
    run: Path, mini_corpus: Path, translator: DocumentTranslator
) -> None:
    path = mini_corpus / "contrastive.json"
    result: dict[str, Any] = generate_run(run, path, translator=translator)[0]
    items = read_contrastive(path)
    translations = translator.translate(source_documents(items, context=3))
    expected = generative_accuracy(items, translations)
    assert {key: result[key] for key in expected} == expected
    assert result["skipped"] == 0
    assert result["signature"].startswith("generative|context:3|target_context:own|beam:5|engine:")
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert scores == {"generative": result}


def test_context_use_is_kept_token_by_token(run: Path, translator: DocumentTranslator) -> None:
    result: dict[str, Any] = measure_context_use(run, translator)[0]
    text = (run / "cxmi.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert result["sentences"] == len(rows)
    assert result["tokens"] == sum(len(row["tokens"]) for row in rows)
    mean = sum(row["cxmi"] for row in rows) / len(rows)
    assert result["cxmi"] == pytest.approx(mean, abs=1e-5)
    for row in rows:
        assert sum(row["p_cxmi"]) == pytest.approx(row["cxmi"], abs=1e-4)
    assert result["signature"] == "cxmi|context:3|target_context:reference|log:e"
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert scores["cxmi"] == result
