"""The byte-pair encoding: lossless on any text, and the same for plain Transformers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoTokenizer

from iada.data.formats.lines import read_lines
from iada.data.tokens.subwords import SPECIAL_TOKENS, Subwords, train_subwords
from iada.errors import ConfigError, ModelError

TEXTS = [
    "the cat sat .",
    "",
    " ",
    "   ",
    " leading",
    "trailing ",
    "two  spaces   three",
    "Größe, Straße, Ärger",
    "🙂 smile 👩‍👩‍👧",
    "汉字 and Ελληνικά",
    "<sep>",
    "a <sep> b </s> c<pad><mask><unk><s>",
    "<0x41> is not A",
    "tab\tand\u00a0no-break\u2028space",
    "Cafe\u0301",
    "\ufffd",
]


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_restores_the_text(subwords: Subwords, text: str) -> None:
    (ids,) = subwords.encode([text])
    assert subwords.decode(ids) == text
    assert not set(ids) & set(subwords.special.all)


# U+2581 is how a space is written inside pieces; surrogates are not text.
@settings(max_examples=200, deadline=None)
@given(
    text=st.text(
        st.characters(exclude_characters="\u2581\n", exclude_categories=["Cs"]), max_size=30
    )
)
def test_decoding_restores_any_text(subwords: Subwords, text: str) -> None:
    (ids,) = subwords.encode([text])
    assert subwords.decode(ids) == text
    assert subwords.special.unk not in ids


def test_an_empty_sentence_has_no_tokens(subwords: Subwords) -> None:
    assert subwords.encode(["", "cat", ""])[::2] == [[], []]


def test_characters_outside_the_alphabet_become_their_bytes(subwords: Subwords) -> None:
    (ids,) = subwords.encode(["ü"])
    # UTF-8 of U+00FC is C3 BC.
    assert subwords.pieces(ids)[-2:] == ["<0xC3>", "<0xBC>"]


def test_special_tokens_and_bytes_have_the_first_ids(subwords: Subwords) -> None:
    assert subwords.special.all == (0, 1, 2, 3, 4, 5)
    assert subwords.pieces(range(6)) == ["<pad>", "<s>", "</s>", "<unk>", "<sep>", "<mask>"]
    assert subwords.pieces([6, 261]) == ["<0x00>", "<0xFF>"]
    assert sorted(subwords.reserved_ids) == list(range(6 + 256))


def test_special_tokens_vanish_in_decoding(subwords: Subwords) -> None:
    (ids,) = subwords.encode(["the cat"])
    special = subwords.special
    assert subwords.decode([special.bos, *ids, special.eos, special.pad]) == "the cat"


def test_the_vocabulary_has_the_asked_size_when_the_text_allows() -> None:
    sentences = ["abcdefgh ijkl", "abcdefgh mnop"] * 5
    # 6 specials, 256 bytes, 16 letters and the space are 279; the rest are merges.
    subwords = train_subwords(sentences, vocabulary_size=285)
    assert len(subwords) == 285
    assert len(subwords.reserved_ids) == 262


def test_a_vocabulary_that_cannot_hold_the_alphabet_is_refused() -> None:
    letters = [chr(code) for code in range(ord("一"), ord("一") + 100)]
    # 100 characters, the space, 256 bytes and 6 specials.
    with pytest.raises(
        ConfigError, match=r"vocabulary_size` is 300, but .* alone are 363\. Raise it"
    ):
        train_subwords(letters * 2, vocabulary_size=300)


def test_plain_transformers_gives_the_same_ids_and_the_end_of_sentence(
    subwords: Subwords, tmp_path: Path
) -> None:
    subwords.save(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    # A special token in the text is a special token there; everything else agrees.
    texts = [text for text in TEXTS if not any(token in text for token in SPECIAL_TOKENS)]
    for text, ids in zip(texts, subwords.encode(texts), strict=True):
        assert tokenizer(text)["input_ids"] == [*ids, subwords.special.eos]
        assert tokenizer.decode(ids) == text
    assert tokenizer.pad_token_id == subwords.special.pad
    assert tokenizer.mask_token_id == subwords.special.mask


def test_a_saved_encoding_is_read_back_unchanged(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path)
    again = Subwords.load(tmp_path)
    assert again.encode(TEXTS) == subwords.encode(TEXTS)
    assert again.special == subwords.special
    assert len(again) == len(subwords)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json does not exist"):
        Subwords.load(tmp_path)


def test_a_foreign_tokenizer_is_refused() -> None:
    foreign = Tokenizer(BPE())
    foreign.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>"])
    with pytest.raises(ModelError, match="The tokenizer lacks <sep>, <mask>"):
        Subwords(foreign)


DEV_SETS = ["bcontrast", "bible", "europarl", "gnome_help", "news", "ted"]


@pytest.mark.parametrize("corpus", DEV_SETS)
def test_real_text_survives_the_round_trip(real_data: Path, corpus: str) -> None:
    sides = [read_lines(real_data / corpus / f"dev.{language}") for language in ("en", "de")]
    subwords = train_subwords(
        (line for side in sides for line in side[:1000]), vocabulary_size=2000
    )
    for lines in sides:
        for line, ids in zip(lines, subwords.encode(lines), strict=True):
            assert subwords.decode(ids) == line


def test_the_number_of_merges_can_be_given_instead() -> None:
    sentences = ["abcdefgh ijkl", "abcdefgh mnop"] * 5
    subwords = train_subwords(sentences, vocabulary_size=300, merges=3)
    # 6 specials, 256 bytes, 16 letters, the space and 3 merges.
    assert len(subwords) == 6 + 256 + 17 + 3
    larger = train_subwords(sentences, vocabulary_size=300, merges=4)
    assert larger.pieces(range(len(subwords))) == subwords.pieces(range(len(subwords)))
    assert subwords.decode(subwords.encode(["abcdefgh"])[0]) == "abcdefgh"


def test_merges_and_vocabulary_size_are_two_ways_to_say_the_same(subwords: Subwords) -> None:
    sentences = ["the cat sat on the mat .", "der Hund sah die Katze .", "she saw it , again !"] * 3
    alphabet = {"▁", *"".join(sentences).replace(" ", "")}
    merges = 330 - 262 - len(alphabet)
    other = train_subwords(sentences, vocabulary_size=300, merges=merges)
    assert other.pieces(range(len(other))) == subwords.pieces(range(len(subwords)))
    assert other.encode(sentences) == subwords.encode(sentences)


def test_more_merges_than_the_text_yields_are_not_invented() -> None:
    subwords = train_subwords(["ab ab"], vocabulary_size=300, merges=100)
    # "▁a" and "▁ab", or "ab" and "▁ab": a word of three characters has two merges.
    assert len(subwords) == 262 + 3 + 2


def test_learning_does_not_depend_on_the_order_of_sentences() -> None:
    sentences = [f"number {i} and word{i % 7} of the {i % 11} sets" for i in range(500)]
    first = train_subwords(sentences, vocabulary_size=400)
    second = train_subwords(sentences[::-1], vocabulary_size=400)
    assert first.tokenizer.to_str() == second.tokenizer.to_str()
