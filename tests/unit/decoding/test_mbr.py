"""Minimum Bayes risk over the best translations of a search."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from iada.config.decode import DecodeConfig
from iada.decoding.mbr import by_agreement, expected_chrf
from iada.errors import ConfigError


def test_the_candidate_between_the_others_comes_first() -> None:
    candidates = ["Wir gehen.", "Er war grün.", "Sie war grün.", "Sie war ganz grün."]
    assert by_agreement(candidates)[0] == 2
    assert by_agreement(candidates)[-1] == 0


def test_the_score_is_the_mean_chrf_with_the_others() -> None:
    candidates = ["Sie war grün.", "Er war grün.", "Es war rot."]
    chrf = CHRF()
    first = [chrf.sentence_score(candidates[0], [other]).score for other in candidates[1:]]
    assert expected_chrf(candidates)[0] == pytest.approx(sum(first) / 2)


@pytest.mark.parametrize("candidates", [["a"], ["gleich", "gleich"], []])
def test_without_a_difference_the_order_of_the_search_stays(candidates: list[str]) -> None:
    assert by_agreement(candidates) == list(range(len(candidates)))


def test_it_needs_several_candidates() -> None:
    with pytest.raises(ConfigError, match=r"decode\.n_best"):
        DecodeConfig(mbr=True)
