"""Minimum Bayes risk over the best translations of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sacrebleu.metrics.chrf import CHRF

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import Subwords
from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.wavefront import (
    RequestRules,
    TranslationInput,
    Wavefront,
    by_agreement,
    expected_chrf,
)
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


@dataclass
class ThreeWays:
    """Finds the same three translations of every sentence, the odd one most probable."""

    subwords: Subwords
    name = "fake"

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        texts = ["we go", "she was green", "she was so green"]
        encoded = self.subwords.encode(texts, "target")
        return [[Hypothesis(tuple(ids), -n) for n, ids in enumerate(encoded)] for _ in requests]


@pytest.mark.parametrize(("mbr", "expected"), [(False, "we go"), (True, "she was so green")])
def test_translations_and_their_context_are_the_agreed_ones(
    subwords: Subwords, mbr: bool, expected: str
) -> None:
    decode = DecodeConfig(n_best=3, mbr=mbr)
    rules = RequestRules(WindowConfig(), decode, subwords.special, 512)
    document = Document("d", ("a b c d e f", "g h i j k l"))
    wavefront = Wavefront(ThreeWays(subwords), subwords, rules)
    (found,) = wavefront.translate([TranslationInput(document)])
    assert found.document.sentences == (expected, expected)
    assert found.alternatives[0][0].text == expected
    assert len(found.alternatives[0]) == 3
