"""Joint byte-pair encoding of both languages, lossless on any text without the sign `▁`.

Pieces are made of characters, a space is written `▁` and glued to the word that follows it, and
characters outside the alphabet fall back to bytes, so there is no unknown token in practice.
Saved as `tokenizer.json`, which `AutoTokenizer` loads.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from iada.errors import ConfigError, ModelError

SPACE = "▁"
PAD, BOS, EOS, UNK, SEP, MASK = "<pad>", "<s>", "</s>", "<unk>", "<sep>", "<mask>"
SPECIAL_TOKENS = (PAD, BOS, EOS, UNK, SEP, MASK)
_BYTE_TOKENS = tuple(f"<0x{value:02X}>" for value in range(256))
# A word with the space before it, a number, a run of anything else, or left-over spaces.
_WORDS = r"▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^\p{L}\p{M}\p{N}▁]+|▁+(?=▁)|▁"


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the special tokens."""

    pad: int
    bos: int
    eos: int
    unk: int
    sep: int
    mask: int

    @property
    def all(self) -> tuple[int, ...]:
        """All special ids."""
        return (self.pad, self.bos, self.eos, self.unk, self.sep, self.mask)


class Subwords:
    """Encode and decode sentences with a trained byte-pair encoding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
        if missing := [token for token, number in ids.items() if number is None]:
            raise ModelError(
                f"The tokenizer lacks {', '.join(missing)}. Use a tokenizer that `iada` trained."
            )
        # Text that happens to spell a special token is text.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self.special = SpecialIds(*(number for number in ids.values() if number is not None))

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws: specials and byte fallbacks."""
        ids = (self.tokenizer.token_to_id(token) for token in _BYTE_TOKENS)
        return (*self.special.all, *(i for i in ids if i is not None))

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Encode sentences; an empty sentence has no tokens."""
        encodings = self.tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn tokens back into text; special tokens vanish."""
        special = set(self.special.all)
        return str(self.tokenizer.decode([i for i in ids if i not in special]))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces as they stand in the vocabulary."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` and what `AutoTokenizer` needs beside it."""
        from transformers import PreTrainedTokenizerFast

        wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=self.tokenizer,
            pad_token=PAD,
            bos_token=BOS,
            eos_token=EOS,
            unk_token=UNK,
            sep_token=SEP,
            mask_token=MASK,
            clean_up_tokenization_spaces=False,
        )
        wrapped.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path) -> "Subwords":
        """Read `tokenizer.json` from a folder."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelError(f"{path} does not exist. Give the folder of a trained model.")
        return cls(Tokenizer.from_file(str(path)))


def train_subwords(sentences: Iterable[str], *, vocabulary_size: int) -> Subwords:
    """Learn a joint byte-pair encoding of `vocabulary_size` pieces, specials included."""
    # Encodings do not depend on the number of threads; forked workers must not warn about them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size - len(_BYTE_TOKENS),
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    learned = tokenizer.get_vocab_size() + len(_BYTE_TOKENS)
    if learned > vocabulary_size:
        raise ConfigError(
            f"`subwords.vocabulary_size` is {vocabulary_size}, but the characters of this corpus, "
            f"the byte fallbacks and the special tokens alone are {learned}. Raise it."
        )
    tokenizer = _with_byte_fallback(tokenizer)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", special_tokens=[(EOS, tokenizer.token_to_id(EOS))]
    )
    return Subwords(tokenizer)


def _with_byte_fallback(tokenizer: Tokenizer) -> Tokenizer:
    """Insert the 256 byte tokens after the specials.

    The trainer can only add them as special tokens, which would be matched in the text itself.
    """
    state = json.loads(tokenizer.to_str())
    learned = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
    ordinary = [token for token in learned if token not in SPECIAL_TOKENS]
    ordered = [*SPECIAL_TOKENS, *_BYTE_TOKENS, *ordinary]
    state["model"]["vocab"] = {token: number for number, token in enumerate(ordered)}
    state["model"]["byte_fallback"] = True
    state["added_tokens"] = []
    rebuilt = Tokenizer.from_str(json.dumps(state))
    rebuilt.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return rebuilt
