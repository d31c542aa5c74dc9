"""Layouts: sentences read off the ids, and every mask by hand."""

import torch
from torch import Tensor

from iada.models.layout import ALL, CURRENT, OWN, Layout, back, read_sentences, recent

BOS, EOS, UNK, SEP = 1, 2, 3, 4


SOURCE = torch.tensor([[10, 11, EOS, 12, EOS, 13, EOS, 0]])
TARGET = torch.tensor([[BOS, 20, BOS, 21]])


def layout(first: int = 1) -> Layout:
    source = read_sentences(SOURCE, SOURCE != 0, boundaries=(EOS, SEP), unknown=UNK, opens=False)
    target = read_sentences(TARGET, TARGET != 0, boundaries=(BOS, SEP), unknown=UNK, opens=True)
    return Layout(source, torch.tensor([first]), target, queries=4)


def keys(mask: Tensor, query: int) -> list[int]:
    """Which keys a query of the only row sees."""
    found: list[int] = mask.reshape(mask.shape[-2:])[query].nonzero().squeeze(1).tolist()
    return found


def test_a_source_boundary_ends_its_sentence() -> None:
    source = layout().source
    assert source.numbers.tolist() == [[0, 0, 0, 1, 1, 2, 2, 3]]
    assert source.places.tolist() == [[0, 1, 2, 0, 1, 0, 1, 0]]
    assert source.words.tolist() == [[True, True, False, True, False, True, False, False]]


def test_a_target_boundary_opens_its_sentence_behind_padding_too() -> None:
    ids = torch.tensor([[0, 0, BOS, 20, UNK, SEP, 21]])
    target = read_sentences(ids, ids != 0, boundaries=(BOS, SEP), unknown=UNK, opens=True)
    assert target.numbers.tolist() == [[-1, -1, 0, 0, 0, 1, 1]]
    assert target.places[:, 2:].tolist() == [[0, 1, 2, 0, 1]]
    assert target.positions[:, 2:].tolist() == [[0, 1, 2, 3, 4]]
    assert target.words.tolist() == [[False, False, False, True, False, False, True]]


def test_the_masks_of_an_encoder() -> None:
    found = layout()
    assert keys(found.mask("encoder", OWN), 3) == [3, 4]
    assert keys(found.mask("encoder", ALL), 3) == [0, 1, 2, 3, 4, 5, 6]
    # The first target sentence translates the second source sentence.
    assert keys(found.mask("encoder", CURRENT), 0) == [3, 4, 5, 6]
    assert keys(found.visible("encoder", back(1)), 5) == [3]
    assert keys(found.visible("encoder", back(2)), 5) == [0, 1]
    assert keys(found.visible("encoder", back(1)), 0) == []
    assert keys(found.mask("encoder", recent(1)), 3) == [3, 4, 5, 6]
    assert keys(found.mask("encoder", recent(1)), 0) == [0, 1, 2]


def test_the_masks_of_a_decoder_are_causal() -> None:
    found = layout()
    assert keys(found.mask("decoder", OWN), 3) == [2, 3]
    assert keys(found.mask("decoder", OWN), 2) == [2]
    assert keys(found.mask("decoder", ALL), 2) == [0, 1, 2]
    assert keys(found.visible("decoder", back(1)), 3) == [1]


def test_a_target_sentence_sees_the_source_sentence_that_it_translates() -> None:
    assert keys(layout(first=1).mask("cross", OWN), 1) == [3, 4]
    assert keys(layout(first=1).mask("cross", OWN), 3) == [5, 6]
    assert keys(layout(first=0).mask("cross", OWN), 3) == [3, 4]


def test_following_sentences_are_not_current() -> None:
    found = layout()
    found.one_current = True
    assert keys(found.mask("cross", CURRENT), 0) == [3, 4]


def test_a_query_with_nothing_to_see_sees_everything_but_padding() -> None:
    # The second target sentence has no source.
    assert keys(layout(first=2).mask("cross", OWN), 3) == list(range(7))


def test_a_decoding_step_is_the_last_row_of_the_whole() -> None:
    whole, step = layout(), layout()
    step.queries = 1
    for place in ("decoder", "cross"):
        for rule in (OWN, ALL):
            expected = whole.mask(place, rule)[:, :, -1:]  # type: ignore[arg-type]
            assert torch.equal(step.mask(place, rule), expected)  # type: ignore[arg-type]


def test_a_mask_is_made_once() -> None:
    found = layout()
    assert found.mask("encoder", OWN) is found.mask("encoder", OWN)
