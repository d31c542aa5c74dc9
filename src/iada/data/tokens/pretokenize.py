"""What happens to text before byte-pair encoding: source tags are split off, Moses tokenises.

A tag is a special token such as `<bt>` that may begin a source sentence. Anywhere else, and on the
target side, the same letters are ordinary text.

Moses separates words and punctuation by spaces, as the paper's recipe does, and joins them again
after decoding. The way back is a set of rules, so text does not always return letter by letter;
without Moses it does.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from iada.config.data import DataConfig, SubwordConfig

_TAG = re.compile(r"(<[a-z][a-z0-9_]*>) ")


def split_tag(sentence: str, tags: Collection[str]) -> tuple[str | None, str]:
    """Return the tag that a source sentence begins with, if any, and the rest.

    A tag counts only if a space follows it.
    """
    first, _, rest = sentence.partition(" ")
    return (first, rest) if rest and first in tags else (None, sentence)


def unnamed_tag(sentence: str, tags: Collection[str]) -> str | None:
    """Return what looks like a tag at the beginning of a source sentence but is none of `tags`."""
    found = _TAG.match(sentence)
    return found[1] if found and found[1] not in tags else None


def untagged(sentences: Sequence[str], tags: Collection[str]) -> Sequence[str]:
    """Return source sentences without their tags."""
    return [split_tag(text, tags)[1] for text in sentences] if tags else sentences


SideName = Literal["source", "target"]


@dataclass(frozen=True)
class Moses:
    """Tokenise and detokenise the two languages of a corpus."""

    source_language: str
    target_language: str

    def tokenize(self, sentences: Sequence[str], side: SideName) -> list[str]:
        """Part words and punctuation by single spaces; markup signs stay as they are."""
        tokenizer = self._tokenizers[side]
        return [tokenizer.tokenize(text, return_str=True, escape=False) for text in sentences]

    def detokenize(self, text: str, side: SideName) -> str:
        """Join words and punctuation again."""
        return str(self._detokenizers[side].detokenize(text.split(" "), unescape=False))

    @cached_property
    def _tokenizers(self) -> dict[SideName, Any]:
        from sacremoses import MosesTokenizer

        return {
            "source": MosesTokenizer(self.source_language),
            "target": MosesTokenizer(self.target_language),
        }

    @cached_property
    def _detokenizers(self) -> dict[SideName, Any]:
        from sacremoses import MosesDetokenizer

        return {
            "source": MosesDetokenizer(self.source_language),
            "target": MosesDetokenizer(self.target_language),
        }


def configured_moses(data: DataConfig, subwords: SubwordConfig) -> Moses | None:
    """Return the tokenisation that a configuration asks for, or none."""
    if subwords.pretokenize == "none":
        return None
    return Moses(data.source_language, data.target_language)
