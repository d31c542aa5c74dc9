"""Beam search by hand: what goes on, what has ended, and when to stop."""

import math

import pytest

from iada.decoding.engines.prefill.search import BeamSearch, Candidate

END = 2


def search(beams: int = 2, *, penalty: float = 1.0, max_new: int = 5) -> BeamSearch:
    return BeamSearch(beams, penalty, END, max_new)


def test_the_best_candidates_go_on_with_their_own_history() -> None:
    beam = search()
    first = [Candidate(-1.0, 0, 7), Candidate(-2.0, 0, 8), Candidate(-3.0, 0, 9)]
    assert beam.advance(first) == first[:2]
    assert beam.open == [(-1.0, (7,)), (-2.0, (8,))]
    second = [Candidate(-2.5, 1, 9), Candidate(-2.6, 1, 10), Candidate(-2.7, 0, 11)]
    assert beam.advance(second) == second[:2]
    assert beam.open == [(-2.5, (8, 9)), (-2.6, (8, 10))]
    assert beam.ended == []


def test_an_end_counts_only_among_the_best_half() -> None:
    beam = search()
    continued = beam.advance(
        [Candidate(-1.0, 0, 7), Candidate(-1.1, 0, 8), Candidate(-1.2, 0, END)]
    )
    assert [c.token for c in continued] == [7, 8]
    assert beam.ended == []
    beam.advance([Candidate(-1.5, 0, END), Candidate(-1.6, 0, 9), Candidate(-1.7, 1, 9)])
    assert [h.tokens for h in beam.ended] == [(7,)]


@pytest.mark.parametrize("penalty", [0.6, 1.0, 1.5])
def test_the_score_divides_by_the_length_with_its_end(penalty: float) -> None:
    beam = search(penalty=penalty)
    beam.advance([Candidate(-1.0, 0, 7), Candidate(-2.0, 0, 8)])
    beam.advance([Candidate(-3.0, 0, END), Candidate(-3.5, 1, 9), Candidate(-3.6, 1, 10)])
    (found,) = beam.ended
    assert found.score == pytest.approx(-3.0 / 2**penalty)


def test_the_search_goes_on_while_something_open_scores_better() -> None:
    beam = search()
    beam.advance([Candidate(-1.0, 0, 7), Candidate(-8.0, 0, END), Candidate(-9.0, 0, 8)])
    beam.advance([Candidate(-1.5, 0, END), Candidate(-1.6, 0, 8), Candidate(-1.7, 0, 9)])
    # Ended: -1.5 / 2 and -8; open: -1.6 / 2, which beats the worst that has ended.
    assert not beam.is_done
    beam.advance([Candidate(-1.9, 0, END), Candidate(-2.3, 0, 8), Candidate(-2.4, 0, 9)])
    # Ended: -0.75 and -1.9 / 3; open: -2.3 / 3, which is worse than both.
    assert beam.is_done
    assert [h.tokens for h in beam.ended] == [(7, 8), (7,)]


def test_a_single_beam_stops_at_its_first_end() -> None:
    beam = search(1)
    assert beam.advance([Candidate(-5.0, 0, END), Candidate(-5.1, 0, 7)]) == []
    assert beam.is_done
    assert [h.tokens for h in beam.ended] == [()]


def test_a_single_beam_passes_by_an_end_that_is_not_the_best() -> None:
    beam = search(1)
    beam.advance([Candidate(-1.0, 0, 7), Candidate(-1.1, 0, END)])
    assert beam.ended == []
    assert not beam.is_done


def test_a_hypothesis_at_its_limit_ends() -> None:
    beam = search(max_new=1)
    assert not beam.is_full
    beam.advance([Candidate(-1.0, 0, 7), Candidate(-2.0, 0, 8)])
    assert beam.is_full
    assert beam.advance([Candidate(-1.5, 0, END), Candidate(-2.5, 1, END)]) == []
    assert beam.is_done
    assert [h.tokens for h in beam.ended] == [(7,), (8,)]


def test_missing_candidates_are_filled_up_with_hopeless_ones() -> None:
    beam = search(3)
    continued = beam.advance([Candidate(-1.0, 0, 7), Candidate(-math.inf, 0, 8)])
    assert [c.token for c in continued] == [7, 7, 7]
    assert [score for score, _ in beam.open] == [-1.0, -math.inf, -math.inf]


def test_impossible_candidates_never_end() -> None:
    beam = search(2)
    beam.advance([Candidate(-1.0, 0, 7), Candidate(-math.inf, 0, END)])
    assert beam.ended == []
