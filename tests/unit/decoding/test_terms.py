"""Terminology: of the best translations, one with the agreed terms."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import Subwords
from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.terms import Terms, read_terms
from iada.decoding.wavefront import RequestRules, TranslationInput, Wavefront
from iada.errors import ConfigError, DataError

LAMP = {"lamp": ["Leuchte", "Leuchten"], "table": ["Tisch"]}


@pytest.mark.parametrize(
    ("source", "candidates", "order"),
    [
        ("The lamp.", ["Die Lampe.", "Die Leuchte."], [1, 0]),
        ("Lamp and table", ["Lampe, Tisch", "nichts", "Leuchten, Tisch"], [2, 0, 1]),
        # Whole words only, and only those of the source.
        ("The lamps.", ["Lampen", "Leuchte"], [0, 1]),
        ("The lamp.", ["Straßenleuchte", "eine leuchte"], [1, 0]),
        ("Nothing.", ["b", "Tisch"], [0, 1]),
    ],
)
def test_candidates_with_most_terms_come_first(
    source: str, candidates: list[str], order: list[int]
) -> None:
    assert Terms(LAMP).order(source, candidates) == order


def test_words_of_scripts_without_spaces_are_found() -> None:
    terms = Terms({"lamp": ["\u706f"], "\u53f0\u706f": ["lamp"]})
    assert terms.order("a lamp", ["\u4e00\u53f0\u5c4f", "\u4e00\u76cf\u706f\u3002"]) == [1, 0]
    assert terms.order("\u6211\u7684\u53f0\u706f\u574f\u4e86", ["it", "my lamp"]) == [1, 0]


def test_what_is_met_is_counted() -> None:
    terms = Terms(LAMP)
    terms.order("lamp table", ["Leuchte", "x"])
    terms.order("table", ["Tisch"])
    assert (terms.asked, terms.met) == (3, 2)


def test_a_file_has_a_term_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("\ufefflamp\tLeuchte\r\nlamp\tLeuchten\n\ntable\tTisch\n", encoding="utf-8")
    assert read_terms(path).translations == LAMP


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"lamp\tLeuchte\nlamp Leuchte\n", r"terms\.tsv:2: is not a term"),
        (b"lamp\t\n", r"terms\.tsv:1: is not a term"),
        (b"a\tb\tc\n", r"terms\.tsv:1: is not a term"),
        (b"a\t\xff\n", r"terms\.tsv:1: "),
        (b"\n", "has no term"),
    ],
)
def test_other_lines_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message):
        read_terms(path)


def test_it_needs_several_candidates() -> None:
    with pytest.raises(ConfigError, match=r"`decode\.terms`"):
        DecodeConfig(terms=Path("terms.tsv"))
    several = DecodeConfig(terms=Path("terms.tsv"), n_best=2, mbr=True)
    assert several.only_best() == DecodeConfig()


@dataclass
class TwoWays:
    """Finds the same two translations of every sentence."""

    subwords: Subwords
    name = "fake"

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        encoded = self.subwords.encode(["the cat", "the mat"], "target")
        return [[Hypothesis(tuple(ids), -n) for n, ids in enumerate(encoded)] for _ in requests]


def test_a_translation_with_the_term_is_taken_and_misses_are_counted(
    subwords: Subwords, caplog: pytest.LogCaptureFixture
) -> None:
    rules = RequestRules(WindowConfig(), DecodeConfig(n_best=2), subwords.special, 512)
    terms = Terms({"b": ["mat"], "c": ["dog"]})
    document = Document("d", ("a d e f g", "a b e f g", "c d e f g"))
    with caplog.at_level(logging.INFO):
        (found,) = Wavefront(TwoWays(subwords), subwords, rules, terms=terms).translate(
            [TranslationInput(document)]
        )
    assert found.document.sentences == ("the cat", "the mat", "the cat")
    assert [one.text for one in found.alternatives[1]] == ["the mat", "the cat"]
    assert "1 of the 2 terms that the text has are in its translation" in caplog.text
