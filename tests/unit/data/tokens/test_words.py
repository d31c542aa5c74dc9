"""Encoding word by word gives what the tokenizer gives."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.formats.lines import read_lines
from iada.data.tokens import words
from iada.data.tokens.pretokenize import Moses
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.tokens.words import WordEncoder


def plain(subwords: Subwords, sentences: list[str]) -> list[int]:
    sep = subwords.special.sep
    return [i for ids in subwords.encode(sentences, "source") for i in (*ids, sep)]


SENTENCES = st.lists(
    st.text(
        st.one_of(
            st.sampled_from(" ▁.,-]^\\'1²½aä"),
            st.characters(exclude_characters="\n", exclude_categories=["Cs"]),
        ),
        max_size=20,
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(first=SENTENCES, second=SENTENCES)
def test_tokens_are_those_of_the_tokenizer(
    subwords: Subwords, first: list[str], second: list[str]
) -> None:
    encoder = WordEncoder(subwords)
    for sentences in (first, second):
        assert encoder.encode(sentences, "source").tolist() == plain(subwords, sentences)


def test_no_sentence_gives_no_token_and_an_empty_one_its_separator(subwords: Subwords) -> None:
    encoder = WordEncoder(subwords)
    assert encoder.encode([], "source").tolist() == []
    assert encoder.encode([""], "source").tolist() == [subwords.special.sep]
    assert encoder.encode(["", ""], "source").tolist() == [subwords.special.sep] * 2


@pytest.mark.parametrize("limit", ["_MOST_WORDS", "_MOST_CHARACTERS"])
def test_the_memory_is_bounded_and_its_loss_changes_nothing(
    subwords: Subwords, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(words, limit, 40)
    encoder = WordEncoder(subwords)
    for start in range(0, 60, 5):
        sentences = [f"word{number} long{number}" for number in range(start, start + 5)]
        assert encoder.encode(sentences, "source").tolist() == plain(subwords, sentences)
        # At most the limit and the words of one call.
        assert len(encoder._numbers) <= 40 + 10


def test_moses_comes_first(subwords: Subwords) -> None:
    moses = Moses("en", "de")
    tokenized = Subwords(subwords.tokenizer, moses)
    sentences = ["It's, well: it's!", "Anna's"]
    encoder = WordEncoder(tokenized)
    assert encoder.encode(sentences, "source").tolist() == plain(tokenized, sentences)
    target = [i for ids in tokenized.encode(sentences, "target") for i in (*ids, 4)]
    assert encoder.encode(sentences, "target").tolist() == target


@pytest.mark.parametrize("corpus", ["bcontrast", "ted"])
def test_real_text_gets_the_same_tokens(real_data: Path, corpus: str) -> None:
    lines = [*read_lines(real_data / corpus / "dev.en"), *read_lines(real_data / corpus / "dev.de")]
    subwords = train_subwords(lines, vocabulary_size=2000)
    assert WordEncoder(subwords).encode(lines, "source").tolist() == plain(subwords, lines)
