"""Replaced tokens as text: valid, and changed only where something was replaced."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.tokens.pretokenize import Moses
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.errors import ConfigError
from iada.synthesis.rendering import Rendering, Swap, swaps

RENDERING = Rendering(boundaries="blank_line")
TEXT = st.text(st.characters(exclude_characters="▁\n", exclude_categories=["Cs"]), max_size=20)


def masked(subwords: Subwords, text: str, positions: set[int], rendering: Rendering) -> str:
    (ids,) = subwords.encode([text], "source")
    tokens = subwords.pieces(ids)
    selected = [i in positions for i in range(len(ids))]
    found = swaps(subwords, tokens, selected, [subwords.special.mask] * len(ids))
    return rendering.text(subwords, text, ids, found, "source")


def test_a_mask_is_a_word_of_its_own(subwords: Subwords) -> None:
    text = "the cat, the mat"
    pieces = subwords.pieces(subwords.encode([text])[0])
    # If the encoding changes, choose the positions anew.
    assert pieces == ["▁the", "▁cat", ",", "▁the", "▁mat"]
    assert masked(subwords, text, {1}, RENDERING) == "the <mask> , the mat"
    assert masked(subwords, text, {2}, RENDERING) == "the cat <mask> the mat"
    assert masked(subwords, text, {0, 1}, RENDERING) == "<mask> <mask> , the mat"
    assert masked(subwords, text, set(range(5)), RENDERING) == " ".join(["<mask>"] * 5)
    other = Rendering(boundaries="marker", mask_text="[X]")
    assert masked(subwords, text, {4}, other) == "the cat, the [X]"


def test_a_random_piece_brings_its_own_space(subwords: Subwords) -> None:
    (ids,) = subwords.encode(["the cat"])
    pieces = {piece: i for i, piece in enumerate(subwords.pieces(range(len(subwords))))}
    for piece, expected in (("▁mat", "the mat"), ("t", "thet"), ("!", "the!")):
        swap = Swap(1, 2, piece, pieces[piece])
        assert RENDERING.text(subwords, "the cat", ids, (swap,), "target") == expected


def test_a_tag_stays_in_front() -> None:
    tagged = train_subwords(["the cat sat on the mat ."] * 3, vocabulary_size=300, tags=("<bt>",))
    (ids,) = tagged.encode(["<bt> the cat"], "source")
    swap = Swap(1, 2, "<mask>", tagged.special.mask)
    text = RENDERING.text(tagged, "<bt> the cat", ids, (swap,), "source")
    assert text == "<bt> <mask> cat"
    assert RENDERING.text(tagged, "<bt> the cat", ids, (swap,), "target") == "<mask> cat"


def test_moses_joins_the_words_again() -> None:
    moses = Moses("en", "de")
    subwords = train_subwords(["the cat sat , on the mat ."] * 3, vocabulary_size=310, moses=moses)
    assert masked(subwords, "the cat, sat.", {0}, RENDERING) == "<mask> cat, sat."


@settings(max_examples=200, deadline=None)
@given(text=TEXT, data=st.data())
def test_any_replacement_gives_valid_text(
    subwords: Subwords, text: str, data: st.DataObject
) -> None:
    (ids,) = subwords.encode([text])
    tokens = subwords.pieces(ids)
    selected = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    ordinary = sorted(set(range(len(subwords))) - set(subwords.reserved_ids))
    drawn = data.draw(
        st.lists(st.sampled_from(ordinary), min_size=len(ids), max_size=len(ids))
        | st.just([subwords.special.mask] * len(ids))
    )
    found = swaps(subwords, tokens, selected, drawn)
    # What is selected is replaced, and nothing but whole characters beyond it.
    replaced = [i for swap in found for i in range(swap.start, swap.stop)]
    assert {i for i, chosen in enumerate(selected) if chosen} <= set(replaced)
    assert all(any(selected[swap.start : swap.stop]) for swap in found)
    assert all(swap.stop == swap.start + 1 or tokens[swap.start][:3] == "<0x" for swap in found)
    written = RENDERING.text(subwords, text, ids, found, "target")
    assert written.encode().decode() == written
    assert written.count("\ufffd") <= text.count("\ufffd")
    assert "\n" not in written
    if not found:
        assert written == text
    if found and found[0].piece == "<mask>":
        assert written.split().count("<mask>") == len(found) + text.split().count("<mask>")


@pytest.mark.parametrize("text", ["", " ", "two words", "a\nb", "<d>"])
def test_a_mask_that_is_no_word_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="`mask_text` must be one word"):
        Rendering(boundaries="marker", mask_text=text)


@pytest.mark.parametrize(
    ("boundaries", "text", "expected"),
    [
        ("blank_line", "<d>", True),
        ("marker", " <d>", False),
        ("none", "<d>", True),
        ("none", " ", False),
        ("blank_line", "\u00a0", False),
    ],
)
def test_what_a_file_holds_as_a_sentence(boundaries: str, text: str, expected: bool) -> None:
    assert Rendering(boundaries=boundaries).is_sentence(text) is expected  # type: ignore[arg-type]
