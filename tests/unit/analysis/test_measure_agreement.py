"""Agreement of measures: ranks by hand, hinges by hand, and the answers of a trained model."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.analysis.measure_agreement import (
    AGREEMENT_FILE,
    Answers,
    _Arrays,
    _Means,
    agreement_of_run,
    average_ranks,
    hinge_tokens,
    rank_correlation,
)
from iada.analysis.parts_of_speech import NAMES
from iada.data.formats.contrapro import ContrastiveItem
from iada.data.tokens.subwords import SubwordEncoding
from iada.method.importance import MEASURES

MEASURED = [name for name, measure in MEASURES.items() if measure.is_measured]


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert average_ranks(array(3, 1, 3, 2)).tolist() == [2.5, 0, 2.5, 1]


def test_the_correlation_is_that_of_ranks() -> None:
    assert rank_correlation(array(1, 2, 9), array(0, 5, 6)) == pytest.approx(1)
    assert rank_correlation(array(1, 2, 9), array(6, 5, 0)) == pytest.approx(-1)
    # Ranks 0 1 2 3 and 1 0 2 3: 1 − 6 · 2 / (4 · 15).
    assert rank_correlation(array(1, 2, 3, 4), array(8, 7, 9, 10)) == pytest.approx(0.8)
    assert rank_correlation(array(1, 1), array(1, 2)) is None
    assert rank_correlation(array(), array()) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=12))
def test_only_the_order_counts(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    found = rank_correlation(first, second)
    stretched = rank_correlation(np.exp(first), second**3)
    assert found == (None if stretched is None else pytest.approx(stretched))
    assert found is None or -1 - 1e-9 <= found <= 1 + 1e-9
    swapped = rank_correlation(second, first)
    assert found == (None if swapped is None else pytest.approx(swapped))


def item(reference: str, *variants: str) -> ContrastiveItem:
    return ContrastiveItem("i", (), (), "x", reference, variants, "er", 1)


class Letters:
    """An encoding with one token per letter."""

    def encode(self, sentences: Sequence[str], side: str) -> list[list[int]]:
        assert side == "target"
        return [[ord(letter) for letter in sentence] for sentence in sentences]


@pytest.mark.parametrize(
    ("reference", "variants", "expected"),
    [
        ("abcd", ["aXcd"], [1]),
        ("abcd", ["aXcd", "abcX"], [1, 3]),
        ("abcd", ["aXXXcd"], [1]),
        ("abcd", ["ad"], [1, 2]),
        # The variant has more: no token of the reference is another one.
        ("abcd", ["abXcd"], []),
        # Repetitions are shared once, with the beginning.
        ("abab", ["ab"], [2, 3]),
    ],
)
def test_hinges_are_what_a_variant_does_not_share(
    reference: str, variants: list[str], expected: list[int]
) -> None:
    assert hinge_tokens(cast(SubwordEncoding, Letters()), item(reference, *variants)) == expected


@pytest.fixture(scope="module")
def answers(
    trained_run: Path, mini_corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    run = shutil.copytree(trained_run, tmp_path_factory.mktemp("agreement") / "run")
    found = agreement_of_run(run, mini_corpus / "contrastive.json")
    # Kept: the second answer is read, not measured.
    stored = json.loads((run / AGREEMENT_FILE).read_text(encoding="utf-8"))
    assert stored == found
    (run / AGREEMENT_FILE).write_text(json.dumps({"hinges": {"gnorm": 0.25}}), encoding="utf-8")
    assert agreement_of_run(run, None) == {"hinges": {"gnorm": 0.25}}
    return found


def test_every_pair_that_scores_the_same_tokens_has_a_correlation(answers: Answers) -> None:
    everywhere = {"tnorm", "gnorm", "grad_input", "embedding_norm"}
    on_source = {frozenset(name.split()) for name in answers["rank_source"]}
    assert {frozenset((a, b)) for a in everywhere for b in everywhere if a < b} <= on_source
    # Surprisal and P-CXMI say nothing of the source.
    assert not any("surprisal" in pair or "p_cxmi" in pair for pair in on_source)
    on_target = {frozenset(name.split()) for name in answers["rank_target"]}
    assert frozenset(("surprisal", "p_cxmi")) in on_target
    # No token is scored by both: one scores the context, the other the current sentence.
    assert frozenset(("context_gradient", "p_cxmi")) not in on_target
    values = [*answers["rank_source"].values(), *answers["rank_target"].values()]
    assert all(-1 <= value <= 1 for value in values)
    # Both come from the same gradient.
    assert answers["rank_source"]["gnorm grad_input"] > 0.3


def test_tags_follow_tokens_wherever_a_frame_puts_them() -> None:
    ordinary = np.array([[False, True, False, True, True]])
    scored = np.array([[False, True, False, False, True]])
    group = _Arrays(np.ones((1, 5)), array(9, 1, 9, 5, 3)[None], ordinary, scored)
    means = _Means()
    means.add_tags("gnorm", group, [np.array([0, 1, 1])])
    assert means.finished() == {"tags": {f"gnorm {NAMES[0]}": 1, f"gnorm {NAMES[1]}": 3}}


def test_z_scores_of_all_tags_together_cancel_out(answers: Answers) -> None:
    tags = dict.fromkeys(name.split()[1] for name in answers["tags"])
    # In the order of other tables, whatever is met first.
    assert list(tags) == [name for name in NAMES if name in tags]
    assert {"NOUN", "PRON"} <= set(tags)
    gnorm = [value for name, value in answers["tags"].items() if name.startswith("gnorm ")]
    assert min(gnorm) < 0 < max(gnorm)


def test_hinges_have_a_rank_for_every_measure_of_the_target_sentence(answers: Answers) -> None:
    assert set(answers["hinges"]) == {*MEASURED} - {"context_gradient"}
    assert all(0 <= value <= 1 for value in answers["hinges"].values())
