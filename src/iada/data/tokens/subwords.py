"""Joint byte-pair encoding of both languages, lossless on any text without the sign `▁`.

Pieces are made of characters, a space is written `▁` and glued to the word that follows it, and
characters outside the alphabet fall back to bytes, so there is no unknown token in practice. A tag
such as `<bt>` is a special token that may begin a source sentence; anywhere else it is text.
Saved as `tokenizer.json`, which `AutoTokenizer` loads. Where Moses tokenisation comes first,
`pretokenize.json` beside it says so, and where ciphers were learned with it, `ciphers.json`.
"""

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

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

from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.pretokenize import Moses, SideName, split_tag
from iada.errors import ConfigError, ModelError
from iada.storage import read_object, write_text

logger = logging.getLogger(__name__)

SPACE = "▁"
PAD, BOS, EOS, UNK, SEP, MASK = "<pad>", "<s>", "</s>", "<unk>", "<sep>", "<mask>"
SPECIAL_TOKENS = (PAD, BOS, EOS, UNK, SEP, MASK)
_BYTE_TOKENS = tuple(f"<0x{value:02X}>" for value in range(256))
_PRETOKENIZE_FILE = "pretokenize.json"
# Room for characters beside a given number of merges: what is learned beyond is cut off again.
_LARGEST_ALPHABET = 20_000
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
    """What follows every sentence in the token store; `</s>` itself in pre-trained vocabularies,
    which have no separator."""
    mask: int | None
    """None where a pre-trained vocabulary has none."""
    tags: tuple[int, ...] = ()
    """What may begin a source sentence to tell where it comes from."""
    others: tuple[int, ...] = ()
    """What else is no text in a pre-trained vocabulary: language codes, sentinels."""
    source: tuple[int, ...] = ()
    """Special ids of the source where it has a vocabulary of its own; no model ever says them."""
    source_mask: int | None = None
    """Which of them is its mask."""

    @property
    def all(self) -> tuple[int, ...]:
        """All special ids, each once."""
        return tuple(dict.fromkeys((*self.of_target, *self.source)))

    @property
    def of_target(self) -> tuple[int, ...]:
        """All special ids that a model has logits of, each once."""
        mask = () if self.mask is None else (self.mask,)
        common = (self.pad, self.bos, self.eos, self.unk, self.sep)
        return tuple(dict.fromkeys((*common, *mask, *self.tags, *self.others)))

    @property
    def masks(self) -> tuple[int, ...]:
        """Every id that stands for a dropped word."""
        return tuple(i for i in (self.mask, self.source_mask) if i is not None)


class SubwordEncoding(Protocol):
    """What the package asks of an encoding: our own, or that of a pre-trained model."""

    @property
    def special(self) -> SpecialIds:
        """Ids of the special tokens."""
        ...

    @property
    def tags(self) -> Mapping[str, int]:
        """Id of each tag that may begin a source sentence."""
        ...

    @property
    def moses(self) -> Moses | None:
        """The tokenisation that comes first, if any."""
        ...

    @property
    def ciphers(self) -> Ciphers | None:
        """The ciphers that the encoding was learned with, if any."""
        ...

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws."""
        ...

    def __len__(self) -> int:
        """Return the number of rows of the embedding matrix."""
        ...

    def encode(self, sentences: Sequence[str], side: SideName | None = None) -> list[list[int]]:
        """Encode sentences without special tokens; an empty sentence has no tokens."""
        ...

    def decode(self, ids: Sequence[int], side: SideName = "target") -> str:
        """Turn tokens back into text; special tokens vanish."""
        ...

    def joined(self, ids: Sequence[int]) -> str:
        """Return the text before detokenisation; special tokens vanish."""
        ...

    def encode_markup(self, text: str) -> list[int]:
        """Encode text in which the names of special tokens are these tokens."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return what tokens spell, `▁` for a space."""
        ...

    def split_tag(self, sentence: str) -> tuple[str | None, str]:
        """Return the tag that a source sentence begins with, if any, and the rest."""
        ...

    def save(self, folder: Path) -> None:
        """Write everything that loading needs."""
        ...


class Subwords:
    """Encode and decode sentences with a trained byte-pair encoding."""

    def __init__(
        self, tokenizer: Tokenizer, moses: Moses | None = None, ciphers: Ciphers | None = None
    ) -> None:
        """Wrap a tokenizer.

        Args:
            tokenizer: a byte-pair encoding that `train_subwords` learned.
            moses: the tokenisation that comes before it, if any.
            ciphers: the ciphers of the source that it was learned with, if any.
        """
        ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
        if missing := [token for token, number in ids.items() if number is None]:
            raise ModelError(
                f"The tokenizer lacks {', '.join(missing)}. Use a tokenizer that `iada` trained."
            )
        # Text that happens to spell a special token is text.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        self.moses = moses
        self.ciphers = ciphers
        self.tags = _tags(tokenizer)
        """Id of each tag."""
        pad, bos, eos, unk, sep, mask = (number or 0 for number in ids.values())
        self.special = SpecialIds(pad, bos, eos, unk, sep, mask, tuple(self.tags.values()))

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws: specials and byte fallbacks."""
        ids = (self.tokenizer.token_to_id(token) for token in _BYTE_TOKENS)
        return (*self.special.all, *(i for i in ids if i is not None))

    def encode(self, sentences: Sequence[str], side: SideName | None = None) -> list[list[int]]:
        """Encode sentences; an empty sentence has no tokens.

        Args:
            sentences: the text.
            side: which language it is in, for Moses tokenisation and tags: only a source sentence
                can begin with a tag.
        """
        has_tags = bool(self.tags) and side == "source"
        parts = [self.split_tag(text) for text in sentences] if has_tags else []
        texts = [text for _, text in parts] if has_tags else sentences
        encodings = self.tokenizer.encode_batch_fast(
            self.pretokenize(texts, side), add_special_tokens=False
        )
        ids = [encoding.ids for encoding in encodings]
        for (tag, _), sentence in zip(parts, ids, strict=False):
            if tag is not None:
                sentence.insert(0, self.tags[tag])
        return ids

    def encode_markup(self, text: str) -> list[int]:
        """Encode text in which the names of special tokens are these tokens."""
        names = "|".join(map(re.escape, SPECIAL_TOKENS))
        ids: list[int] = []
        for part in re.split(f"({names})", text):
            number = self.tokenizer.token_to_id(part) if part in SPECIAL_TOKENS else None
            if number is not None:
                ids.append(number)
            elif part:
                ids += self.tokenizer.encode(part, add_special_tokens=False).ids
        return ids

    def split_tag(self, sentence: str) -> tuple[str | None, str]:
        """Return the tag that a source sentence begins with, if any, and the rest."""
        return split_tag(sentence, self.tags)

    def pretokenize(self, sentences: Sequence[str], side: SideName | None) -> list[str]:
        """Return the text that the byte-pair encoding itself reads."""
        if self.moses is None:
            return list(sentences)
        if side is None:
            raise ValueError("Moses tokenisation needs to know the side of the text.")
        return self.moses.tokenize(sentences, side)

    def decode(self, ids: Sequence[int], side: SideName = "target") -> str:
        """Turn tokens back into text; special tokens vanish."""
        text = self.joined(ids)
        return text if self.moses is None else self.moses.detokenize(text, side)

    def joined(self, ids: Sequence[int]) -> str:
        """Return the text that `pretokenize` made; special tokens vanish."""
        special = set(self.special.all)
        return str(self.tokenizer.decode([i for i in ids if i not in special]))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces as they stand in the vocabulary."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` and what `AutoTokenizer` needs beside it.

        By hand, because importing Transformers takes longer than preparing a small corpus.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save(str(folder / "tokenizer.json"))
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD,
            "bos_token": BOS,
            "eos_token": EOS,
            "unk_token": UNK,
            "sep_token": SEP,
            "mask_token": MASK,
            "clean_up_tokenization_spaces": False,
        }
        write_text(folder / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")
        if self.moses is not None:
            write_text(folder / _PRETOKENIZE_FILE, json.dumps(asdict(self.moses)) + "\n")
        if self.ciphers is not None:
            self.ciphers.save(folder)

    @classmethod
    def load(cls, folder: Path) -> "Subwords":
        """Read `tokenizer.json` from a folder."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelError(f"{path} does not exist. Give the folder of a trained model.")
        moses_file = folder / _PRETOKENIZE_FILE
        moses = None
        try:
            if moses_file.is_file():
                moses = Moses(**read_object(moses_file))
            return cls(Tokenizer.from_file(str(path)), moses, Ciphers.load(folder))
        # The library raises plain exceptions.
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"{folder} does not hold an encoding that can be read. Train or prepare it again. "
                f"({reason})"
            ) from None


def train_subwords(
    sentences: Iterable[str],
    *,
    vocabulary_size: int,
    merges: int | None = None,
    moses: Moses | None = None,
    ciphers: Ciphers | None = None,
    tags: Sequence[str] = (),
) -> Subwords:
    """Learn a joint byte-pair encoding.

    Args:
        sentences: text of both languages without tags, Moses-tokenised already where `moses` is
            given.
        vocabulary_size: number of pieces, specials, tags and byte fallbacks included.
        merges: number of merges instead; the vocabulary then holds the characters on top of them.
        moses: the tokenisation that came first, remembered with the encoding.
        ciphers: the ciphers that are among the text, remembered likewise.
        tags: special tokens that may begin a source sentence.
    """
    if taken := [tag for tag in tags if tag in SPECIAL_TOKENS]:
        raise ConfigError(
            f"`subwords.tags` names {', '.join(taken)}, which every vocabulary has. Choose another "
            "name, such as <bt>."
        )
    # Encodings do not depend on the number of threads; forked workers must not warn about them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    split_words = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.CharDelimiterSplit("\n"), split_words]
    )
    pieces = vocabulary_size if merges is None else merges + _LARGEST_ALPHABET
    trainer = trainers.BpeTrainer(
        vocab_size=pieces - len(_BYTE_TOKENS) - len(tags),
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_marked_chunks(sentences), trainer)
    learned = tokenizer.get_vocab_size() + len(_BYTE_TOKENS) + len(tags)
    if merges is None and learned > vocabulary_size:
        raise ConfigError(
            f"`subwords.vocabulary_size` is {vocabulary_size}, but the characters of this corpus, "
            f"the byte fallbacks and the special tokens alone are {learned}. Raise it."
        )
    if merges is None and learned < vocabulary_size:
        logger.warning(
            "`subwords.vocabulary_size` is %s, but this text has only %s pieces: every word that "
            "occurs twice is one already.",
            f"{vocabulary_size:,}",
            f"{learned:,}",
        )
    tokenizer = _with_byte_fallback(tokenizer, merges, tags)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(" ", SPACE), normalizers.Prepend(SPACE)]
    )
    tokenizer.pre_tokenizer = split_words
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
    return Subwords(tokenizer, moses, ciphers)


def mark_spaces(sentences: Iterable[str]) -> str:
    """Join sentences with line feeds, each in the form in which the encoding splits words.

    This is what the normaliser of the tokenizer does to a single sentence.
    """
    return "\n".join([SPACE + text if text else "" for text in sentences]).replace(" ", SPACE)


def _marked_chunks(sentences: Iterable[str]) -> Iterator[str]:
    """Yield sentences in chunks: handing them over one by one takes longer than counting words."""
    remaining = iter(sentences)
    while chunk := list(islice(remaining, 100)):
        yield mark_spaces(chunk)


def _tags(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the special tokens beyond those that every encoding has, with their ids."""
    added = tokenizer.get_added_tokens_decoder()
    found = {token.content: number for number, token in sorted(added.items())}
    return {token: number for token, number in found.items() if token not in SPECIAL_TOKENS}


def _with_byte_fallback(tokenizer: Tokenizer, merges: int | None, tags: Sequence[str]) -> Tokenizer:
    """Insert tags and the 256 byte tokens after the specials; keep only the first `merges` merges.

    The trainer can only add bytes as special tokens, which would be matched in the text itself.
    """
    state = json.loads(tokenizer.to_str())
    learned = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
    if merges is not None and (surplus := state["model"]["merges"][merges:]):
        # Two merges may make the same piece; it goes only when no kept merge makes it.
        kept = {"".join(pair) for pair in state["model"]["merges"][:merges]}
        unlearned = {"".join(pair) for pair in surplus} - kept
        learned = [token for token in learned if token not in unlearned]
        state["model"]["merges"] = state["model"]["merges"][:merges]
    ordinary = [token for token in learned if token not in SPECIAL_TOKENS]
    ordered = [*SPECIAL_TOKENS, *tags, *_BYTE_TOKENS, *ordinary]
    state["model"]["vocab"] = {token: number for number, token in enumerate(ordered)}
    state["model"]["byte_fallback"] = True
    state["added_tokens"] = []
    rebuilt = Tokenizer.from_str(json.dumps(state))
    rebuilt.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    # The space after a tag parts it from the text and belongs to neither.
    rebuilt.add_special_tokens([AddedToken(tag, special=True, rstrip=True) for tag in tags])
    return rebuilt
