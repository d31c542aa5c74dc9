"""Words and tags: gold files line by line, and HanTa with universal tags."""

import sys
from pathlib import Path

import pytest

from iada.analysis.taggers import GoldTagger, HanoverTagger
from iada.data.documents import Document
from iada.data.formats.lines import read_lines
from iada.data.formats.readers import read_documents
from iada.data.mini.lexicon import Token
from iada.errors import ConfigError, DataError


def documents(*sizes: int) -> list[Document]:
    return [Document(str(size), ("x",) * size) for size in sizes]


def test_gold_tags_are_read_by_document(tmp_path: Path) -> None:
    path = tmp_path / "a.pos"
    path.write_text("It|PRON is|AUX\n.|PUNCT\n\na|b|NOUN\n", encoding="utf-8")
    assert list(GoldTagger(path, "blank_line").tag(documents(2, 1))) == [
        [[Token("It", "PRON"), Token("is", "AUX")], [Token(".", "PUNCT")]],
        [[Token("a|b", "NOUN")]],
    ]


def test_gold_tags_must_have_the_documents_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "a.pos"
    path.write_text("It|PRON\n\nis|AUX\n", encoding="utf-8")
    with pytest.raises(DataError, match="other documents than the corpus"):
        list(GoldTagger(path, "blank_line").tag(documents(2)))


@pytest.mark.parametrize("line", ["It is|AUX", "It|pron", "|PRON", "It|"])
def test_a_word_without_a_tag_is_refused_at_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.pos"
    path.write_text(f"It|PRON\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.pos:3: not all words have a tag"):
        list(GoldTagger(path, "blank_line").tag(documents(1, 1)))


def test_another_language_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no tagger for `fr`, only for en and de.*\.pos"):
        HanoverTagger("fr")


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "HanTa.HanoverTagger", None)
    with pytest.raises(ConfigError, match=r"pip install 'iada\[pos\]'"):
        HanoverTagger("en")


@pytest.fixture(scope="module")
def english() -> HanoverTagger:
    pytest.importorskip("HanTa", reason="needs the optional package HanTa (extra `pos`)")
    return HanoverTagger("en")


def test_english_text_gets_universal_tags(english: HanoverTagger) -> None:
    text = "She doesn't think Anna\u2019s big cars came quickly, but he can see 20 of them."
    ((tagged,),) = english.tag([Document("d", (text,))])
    assert "".join(token.word for token in tagged) == text.replace(" ", "")
    assert [token.word for token in tagged][:6] == [
        "She",
        "does",
        "n't",
        "think",
        "Anna",
        "\u2019s",
    ]
    tags = {token.word: token.tag for token in tagged}
    expected = {
        "She": "PRON",
        "does": "AUX",
        "n't": "PART",
        "think": "VERB",
        "Anna": "PROPN",
        "\u2019s": "PART",
        "big": "ADJ",
        "cars": "NOUN",
        "came": "VERB",
        "quickly": "ADV",
        ",": "PUNCT",
        "but": "CCONJ",
        "can": "AUX",
        "20": "NUM",
        "of": "ADP",
        "them": "PRON",
    }
    assert {word: tags[word] for word in expected} == expected


def test_german_text_gets_universal_tags() -> None:
    pytest.importorskip("HanTa", reason="needs the optional package HanTa (extra `pos`)")
    text = "Ich habe das große Auto nicht gesehen, aber er kommt heute."
    ((tagged,),) = HanoverTagger("de").tag([Document("d", (text,))])
    tags = " ".join(token.tag for token in tagged)
    assert tags == "PRON AUX DET ADJ NOUN PART VERB PUNCT CCONJ PRON VERB ADV PUNCT"
    # A separable prefix is a particle in HanTa's tags, like the negation, but not here.
    ((tagged,),) = HanoverTagger("de").tag([Document("d", ("Er kommt heute schnell an.",))])
    assert tagged[-2] == Token("an", "ADP")


def test_empty_and_odd_sentences_have_the_words_that_they_have(english: HanoverTagger) -> None:
    sentences = ("", " ", "\u2026 \u201eHm\u201c 🙂", "a.b-c d")
    (tagged,) = english.tag([Document("d", sentences)])
    assert ["".join(token.word for token in words) for words in tagged] == [
        "".join(text.split()) for text in sentences
    ]


def test_hanta_agrees_with_most_gold_tags(english: HanoverTagger, mini_corpus: Path) -> None:
    """Not an accuracy to boast of: it shows that words and tables are not mixed up."""
    source = mini_corpus / "test.en"
    corpus = [d for d in read_documents(source) if isinstance(d, Document)]
    gold = GoldTagger(mini_corpus / "test.en.pos", "blank_line")
    same = total = 0
    for left, right in zip(gold.tag(corpus), english.tag(corpus), strict=True):
        for expected, found in zip(left, right, strict=True):
            if [token.word for token in expected] == [token.word for token in found]:
                same += sum(a.tag == b.tag for a, b in zip(expected, found, strict=True))
                total += len(expected)
    assert total > 300
    assert same / total > 0.8


def test_real_text_keeps_its_letters(english: HanoverTagger, real_data: Path) -> None:
    lines = read_lines(real_data / "ted" / "dev.en")[:200]
    (tagged,) = english.tag([Document("d", tuple(lines))])
    for line, words in zip(lines, tagged, strict=True):
        assert "".join(token.word for token in words) == "".join(line.split())
