"""ROT-k ciphers of the source text (CipherDAug).

A cipher moves every letter of its alphabet k places on, from the end back to the beginning. What is
not in the alphabet stays: digits, punctuation, spaces, and letters that the training text lacks. So
an enciphered sentence has the words, the lengths and the signs of its original. Text is enciphered
as it was read, before any tokenisation.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from iada.config.base import require
from iada.config.method import AugmentConfig
from iada.data.documents import ParallelDocument
from iada.data.tokens.pretokenize import split_tag, untagged
from iada.storage import read_object, write_text

_FILE = "ciphers.json"


@dataclass(frozen=True)
class Ciphers:
    """The ciphers of a corpus: one alphabet, several keys."""

    alphabets: tuple[str, ...]
    """Letters that are rotated among themselves, in their order; no letter twice."""
    keys: tuple[int, ...]
    """By how many places each cipher rotates."""
    tags: tuple[str, ...] = ()
    """Special tokens that may begin a sentence, and stay."""

    def encipher(self, sentences: Sequence[str], key: int) -> list[str]:
        """Rotate the letters of sentences by `key` places; a negative key takes them back."""
        table = self._table(key)
        if not self.tags:
            return [text.translate(table) for text in sentences]
        parts = (split_tag(text, self.tags) for text in sentences)
        return [
            rest.translate(table) if tag is None else f"{tag} {rest.translate(table)}"
            for tag, rest in parts
        ]

    def _table(self, key: int) -> dict[int, str]:
        if key not in self._tables:
            self._tables[key] = {
                ord(letter): alphabet[(place + key) % len(alphabet)]
                for alphabet in self.alphabets
                for place, letter in enumerate(alphabet)
            }
        return self._tables[key]

    @cached_property
    def _tables(self) -> dict[int, dict[int, str]]:
        return {}

    def save(self, folder: Path) -> None:
        """Write alphabets and keys beside the encoding that was learned with them."""
        write_text(folder / _FILE, json.dumps(asdict(self), ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Ciphers | None":
        """Read the ciphers of an encoding, if it has any."""
        path = folder / _FILE
        if not path.is_file():
            return None
        content = read_object(path)
        return cls(*map(tuple, (content["alphabets"], content["keys"], content["tags"])))


def learn_ciphers(
    documents: Iterable[ParallelDocument], config: AugmentConfig, *, tags: Sequence[str] = ()
) -> Ciphers | None:
    """Take the alphabet from the source side of the training documents.

    It is the sorted list of their letters, or one list of the small and one of the capital letters
    with `augment.cipher_cased`; letters without case then stay as they are.

    Args:
        documents: the training documents; not read if there is no key.
        config: keys and kind of alphabet.
        tags: special tokens that may begin a source sentence; they are no text.

    Raises:
        ConfigError: a key is no smaller than an alphabet, so that it repeats another or none.
    """
    if not config.cipher_keys:
        return None
    characters: set[str] = set()
    for document in documents:
        characters.update(*untagged(document.source.sentences, tags))
    letters = sorted(filter(str.isalpha, characters))
    groups = [filter(str.islower, letters), filter(str.isupper, letters)]
    joined = ["".join(group) for group in (groups if config.cipher_cased else [letters])]
    alphabets = tuple(alphabet for alphabet in joined if alphabet)
    smallest = min(map(len, alphabets), default=0)
    rule = f"numbers below {smallest}, since the training source has {smallest} letters to rotate"
    require(max(config.cipher_keys) < smallest, "augment.cipher_keys", rule, config.cipher_keys)
    return Ciphers(alphabets, config.cipher_keys, tuple(tags))
