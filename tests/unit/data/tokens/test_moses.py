"""Moses tokenisation before the encoding, and the way back."""

from pathlib import Path

import pytest

from iada.data.tokens.pretokenize import Moses
from iada.data.tokens.subwords import Subwords, train_subwords

MOSES = Moses("en", "de")


def test_punctuation_is_parted_from_words() -> None:
    # Clitics to the right, abbreviations whole, every other sign by itself.
    (text,) = MOSES.tokenize(["It's Mr. Smith's <b>house</b>, isn't it?"], "source")
    assert text == "It 's Mr. Smith 's < b > house < / b > , isn 't it ?"


def test_each_side_follows_the_rules_of_its_language() -> None:
    # English parts the apostrophe to the right; German has no such rule.
    text = "Anna's"
    assert MOSES.tokenize([text], "source") == ["Anna 's"]
    assert MOSES.tokenize([text], "target") == ["Anna ' s"]


@pytest.mark.parametrize(
    "text", ["It's Mr. Smith's house, isn't it?", "He said: (really) 3.5% & more!", ""]
)
def test_ordinary_text_comes_back(text: str) -> None:
    (tokens,) = MOSES.tokenize([text], "source")
    assert MOSES.detokenize(tokens, "source") == text


@pytest.fixture
def subwords() -> Subwords:
    sentences = ["The cat, it sat.", "Die Katze, sie sass."] * 3
    tokens = [
        *MOSES.tokenize(sentences[::2], "source"),
        *MOSES.tokenize(sentences[1::2], "target"),
    ]
    return train_subwords(tokens, vocabulary_size=310, moses=MOSES)


def test_the_encoding_sees_tokens_and_gives_text(subwords: Subwords) -> None:
    (ids,) = subwords.encode(["The cat, it sat."], "source")
    assert "▁," in subwords.pieces(ids)
    assert subwords.decode(ids, "source") == "The cat, it sat."


def test_the_side_must_be_known(subwords: Subwords) -> None:
    with pytest.raises(ValueError, match="needs to know the side"):
        subwords.encode(["The cat"])


def test_a_saved_encoding_remembers_its_tokenisation(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path)
    again = Subwords.load(tmp_path)
    assert again.moses == MOSES
    text = ["The cat, it sat."]
    assert again.encode(text, "source") == subwords.encode(text, "source")


def test_an_encoding_without_moses_says_nothing_of_it(tmp_path: Path) -> None:
    train_subwords(["a b"] * 3, vocabulary_size=300).save(tmp_path)
    assert not (tmp_path / "pretokenize.json").exists()
    assert Subwords.load(tmp_path).moses is None
