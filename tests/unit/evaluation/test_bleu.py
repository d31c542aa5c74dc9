"""BLEU is sacreBLEU's, by sentences and by documents."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.documents import Document
from iada.evaluation.metrics import document_bleu, sentence_bleu


def documents(*sentences: list[str]) -> list[Document]:
    return [Document(str(number), tuple(lines)) for number, lines in enumerate(sentences, start=1)]


REFERENCES = documents(
    ["The cat sat on the mat today .", "It was tired, and it slept."],
    ["He said: “Good-bye!”", "She left at 10:30 a.m.", "Nobody knew why she had left so early."],
)
HYPOTHESES = documents(
    ["A cat sat on the mat today .", "It was tired and it slept."],
    ['He said "Good bye!"', "She left at 10:30 a.m. exactly.", "nobody knew why she left early."],
)


def command_line(hypotheses: list[str], references: list[str], folder: Path) -> tuple[float, str]:
    """Score with the command line of sacrebleu, in a process of its own."""
    files = {"hypothesis": hypotheses, "reference": references}
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    # The default width of one decimal would hide differences.
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "hypothesis", "-w", "12"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    return float(shown["score"]), str(shown["signature"])


def test_sentence_bleu_is_that_of_the_sacrebleu_command(tmp_path: Path) -> None:
    hypotheses, references = (
        [s for d in side for s in d.sentences] for side in (HYPOTHESES, REFERENCES)
    )
    score, signature = command_line(hypotheses, references, tmp_path)
    found = sentence_bleu(HYPOTHESES, REFERENCES)
    assert found.score == pytest.approx(score, abs=1e-9)
    assert found.signature == signature
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_document_bleu_is_that_of_the_sacrebleu_command_on_joined_lines(tmp_path: Path) -> None:
    hypotheses, references = (
        [" ".join(d.sentences) for d in side] for side in (HYPOTHESES, REFERENCES)
    )
    score, signature = command_line(hypotheses, references, tmp_path)
    found = document_bleu(HYPOTHESES, REFERENCES)
    assert found.score == pytest.approx(score, abs=1e-9)
    assert found.signature == signature


def test_references_score_100_against_themselves() -> None:
    assert sentence_bleu(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert document_bleu(REFERENCES, REFERENCES).score == pytest.approx(100)


words = st.lists(st.sampled_from(["a", "b", "c", "d", "."]), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_both_scores_agree_on_documents_of_one_sentence(pairs: list[tuple[str, str]]) -> None:
    hypotheses = documents(*([hypothesis] for hypothesis, _ in pairs))
    references = documents(*([reference] for _, reference in pairs))
    assert sentence_bleu(hypotheses, references) == document_bleu(hypotheses, references)


def test_swapped_sentences_cost_sentence_bleu_more_than_document_bleu() -> None:
    first, second = REFERENCES
    swapped = [Document("1", first.sentences[::-1]), second]
    assert sentence_bleu(swapped, REFERENCES).score < 80
    assert document_bleu(swapped, REFERENCES).score > 90


def test_ngrams_cross_sentences_in_document_bleu_only() -> None:
    # Sentences of three words have no 4-gram; joined, "a b c d e f" has three, and all match.
    text = documents(["a b c", "d e f"])
    assert document_bleu(text, text).score == pytest.approx(100)
    assert sentence_bleu(text, text).score == 0
