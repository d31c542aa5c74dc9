"""ROT-k: a bijection of letters that leaves everything else alone."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iada.config.method import AugmentConfig, augmentation
from iada.data.documents import Document, ParallelDocument
from iada.data.tokens.ciphers import Ciphers, learn_ciphers
from iada.errors import ConfigError

ALPHABET = "ABCabc\u00e4\u00df"
CIPHERS = Ciphers((ALPHABET,), (1, 2))
ENGLISH = Ciphers((string.ascii_uppercase + string.ascii_lowercase,), (1, 2))


def document(*sentences: str) -> ParallelDocument:
    return ParallelDocument(Document("d", tuple(sentences)), Document("d", ("x",) * len(sentences)))


def config(keys: tuple[int, ...], *, cased: bool = False) -> AugmentConfig:
    from dataclasses import replace

    return replace(augmentation("cipher"), cipher_keys=keys, cipher_cased=cased)


@pytest.mark.parametrize("key", range(len(ALPHABET)))
def test_every_key_is_a_bijection_and_the_rest_of_the_turn_its_inverse(key: int) -> None:
    (rotated,) = CIPHERS.encipher([ALPHABET], key)
    assert sorted(rotated) == sorted(ALPHABET)
    assert CIPHERS.encipher([rotated], len(ALPHABET) - key) == [ALPHABET]
    assert CIPHERS.encipher([rotated], -key) == [ALPHABET]
    assert (rotated == ALPHABET) == (key == 0)


@given(text=st.text(), key=st.integers(0, 60))
def test_lengths_signs_and_spaces_stay(text: str, key: int) -> None:
    (rotated,) = ENGLISH.encipher([text], key)
    assert ENGLISH.encipher([rotated], -key) == [text]
    assert list(map(len, rotated.split())) == list(map(len, text.split()))
    assert all(a == b for a, b in zip(text, rotated, strict=True) if not a.isalpha())


def test_one_alphabet_runs_from_capital_to_small_letters() -> None:
    assert ENGLISH.encipher(["Zoo, 42 az!"], 1) == ["app, 42 bA!"]


def test_the_alphabet_is_that_of_the_training_source() -> None:
    learned = learn_ciphers([document("b 1 C", "\u00e4,a"), document("C\u0301 B")], config((1, 2)))
    assert learned == Ciphers(("BCab\u00e4",), (1, 2))
    assert learned.encipher(["a \u00e4 z"], 1) == ["b B z"]


def test_cased_alphabets_keep_the_case() -> None:
    learned = learn_ciphers([document("b C A a \u4e2d")], config((1,), cased=True))
    assert learned == Ciphers(("ab", "AC"), (1,))
    assert learned.encipher(["Cab \u4e2d"], 1) == ["Aba \u4e2d"]


def test_without_keys_nothing_is_read() -> None:
    def refuse() -> ParallelDocument:
        raise AssertionError

    assert learn_ciphers((refuse() for _ in range(1)), augmentation("doc2doc")) is None


@pytest.mark.parametrize("sentence", ["a b c", "1 2 3"])
def test_a_key_that_goes_round_is_refused(sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"`augment.cipher_keys` must be numbers below [03]"):
        learn_ciphers([document(sentence)], config((1, 3)))


def test_ciphers_are_saved_and_found_again(tmp_path: Path) -> None:
    assert Ciphers.load(tmp_path) is None
    CIPHERS.save(tmp_path)
    assert Ciphers.load(tmp_path) == CIPHERS


def test_a_tag_is_neither_learned_from_nor_enciphered() -> None:
    # Only at the beginning of a sentence is it a tag.
    pair = document("<bt> bt", "<q> x", "x <c>")
    learned = learn_ciphers([pair], config((1,)), tags=("<bt>", "<q>", "<c>"))
    assert learned == Ciphers(("bctx",), (1,), ("<bt>", "<q>", "<c>"))
    assert learned.encipher(pair.source.sentences, 1) == ["<bt> cx", "<q> b", "b <t>"]
