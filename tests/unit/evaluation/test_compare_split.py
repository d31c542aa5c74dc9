"""Translations of one split, compared whatever the form of its files."""

from pathlib import Path

import pytest

from iada.config.data import DataConfig
from iada.config.evaluate import EvaluateConfig
from iada.evaluation.score_files import compare_split

SENTENCES = [["Das ist ein Haus im Wald.", "Es ist sehr alt."], ["Der Hund sieht die Katze an."]]


def write_text(path: Path, documents: list[list[str]]) -> Path:
    path.write_text("\n".join("".join(f"{s}\n" for s in d) for d in documents), encoding="utf-8")
    return path


def write_tsv(path: Path, documents: list[list[str]]) -> Path:
    rows = ["document\ten\tde"]
    rows += [f"{n}\tsource\t{s}" for n, document in enumerate(documents) for s in document]
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["text", "tsv"])
def test_systems_are_compared_with_the_baseline(tmp_path: Path, form: str) -> None:
    spoilt = [["Das ist falsch.", "Es ist sehr alt."], SENTENCES[1]]
    if form == "text":
        write_text(tmp_path / "test.en", [["one", "two"], ["three"]])
        write_text(tmp_path / "test.de", SENTENCES)
        data = DataConfig(folder=tmp_path)
        write = write_text
    else:
        write_tsv(tmp_path / "test.tsv", SENTENCES)
        data = DataConfig(folder=tmp_path, train="a.tsv", dev="a.tsv", test="test.tsv")
        write = write_tsv
    paths = {
        "worse": write(tmp_path / "worse", spoilt),
        "right": write(tmp_path / "right", SENTENCES),
        "same": write(tmp_path / "same", SENTENCES),
    }
    config = EvaluateConfig(resamples=50)
    found = compare_split(paths, data, "test", baseline="right", config=config)
    scores, tests = found["systems"], found["significance"]
    assert isinstance(scores, dict)
    assert isinstance(tests, dict)
    assert scores["right"]["s_bleu"]["score"] == pytest.approx(100)
    assert scores["worse"]["s_bleu"]["score"] < 90
    assert set(tests["s_bleu"]["systems"]) == {"worse", "same"}
    assert tests["s_bleu"]["systems"]["same"]["p_value"] == 1
    assert tests["d_bleu"]["systems"]["worse"]["difference"] < 0
