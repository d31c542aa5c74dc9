"""Two vocabularies in one range of ids: a BERT's word pieces for the source, ours for the target.

    target   0 .. T-1        our own byte-pair encoding, learned from the target side alone
    source   T .. T+S-1      ids of BERT's own tokenizer, moved by T

So an id says which vocabulary it is of, and whatever handles tokens (stores, windows, roles,
importance) needs to know of no second one. A model whose source begins at T takes T off again.

Saved as our encoding in its usual files, which is what `AutoTokenizer` loads, and beside it
`source_tokenizer.json` and `source_vocabulary.json`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from iada.data.tokens.checkpoint_facts import load_tokenizer, read_encoder_config
from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.pretokenize import Moses, SideName
from iada.data.tokens.subwords import SPACE, SpecialIds, Subwords
from iada.errors import ModelError
from iada.storage import read_object, write_text

SOURCE_SETTINGS = "source_vocabulary.json"
_SOURCE_TOKENIZER = "source_tokenizer.json"
_UNUSED = "[unused"


@dataclass(frozen=True, kw_only=True)
class WordPieceSettings:
    """What the tokenizer file of a BERT does not say."""

    model: str
    """Folder or hub name that it was taken from."""
    rows: int
    """Rows of the model's embedding matrix."""
    max_length: int
    """Longest sequence that the model can read."""
    pad: int
    opening: int
    """`[CLS]`"""
    end: int
    """`[SEP]`"""
    unk: int
    mask: int


class WordPieces:
    """The tokenizer of a BERT; ids are its own."""

    def __init__(self, tokenizer: Tokenizer, settings: WordPieceSettings) -> None:
        """Wrap a tokenizer.

        Args:
            tokenizer: of word pieces.
            settings: what it does not know of its model.
        """
        # Text that happens to spell a special token is text; and a sentence is never cut.
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.settings = settings
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._mark = str(getattr(tokenizer.model, "continuing_subword_prefix", "##"))
        if (largest := max(self._vocabulary.values())) >= settings.rows:
            raise ModelError(
                f"The tokenizer of {settings.model} has ids up to {largest}, but the model only "
                f"{settings.rows} embeddings. Use the tokenizer that belongs to the model."
            )
        named = (settings.pad, settings.opening, settings.end, settings.unk, settings.mask)
        unused = (i for piece, i in self._vocabulary.items() if piece.startswith(_UNUSED))
        added = tokenizer.get_added_tokens_decoder()
        self.special = tuple(dict.fromkeys((*named, *added, *unused)))
        """Ids that stand for no text."""

    @classmethod
    def from_checkpoint(cls, name: str) -> "WordPieces":
        """Read the tokenizer of a BERT.

        Args:
            name: folder or hub name.

        Raises:
            ModelError: the checkpoint cannot be read, or its tokenizer is of another kind.
        """
        config = read_encoder_config(name)
        loaded = load_tokenizer(name)
        names = ("pad", "cls", "sep", "unk", "mask")
        ids: dict[str, Any] = {one: getattr(loaded, f"{one}_token_id", None) for one in names}
        backend = getattr(loaded, "backend_tokenizer", None)
        missing = [f"[{one.upper()}]" for one, number in ids.items() if number is None]
        if missing or backend is None:
            what = f"lacks {', '.join(missing)}" if missing else "is no fast tokenizer"
            raise ModelError(f"The tokenizer of {name} {what}. Give the folder of a BERT.")
        settings = WordPieceSettings(
            model=name,
            rows=int(config.vocab_size),
            max_length=int(config.max_position_embeddings),
            pad=int(ids["pad"]),
            opening=int(ids["cls"]),
            end=int(ids["sep"]),
            unk=int(ids["unk"]),
            mask=int(ids["mask"]),
        )
        # A copy: what is set here must not change the tokenizer of somebody else.
        return cls(Tokenizer.from_str(backend.to_str()), settings)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Encode sentences without special tokens but `[UNK]`."""
        encodings = self.tokenizer.encode_batch_fast(list(sentences), add_special_tokens=False)
        reserved = {*self.special} - {self.settings.unk}
        return [
            [self.settings.unk if i in reserved else i for i in encoding.ids]
            for encoding in encodings
        ]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return what tokens spell, `▁` for the space before a word."""
        return [self._spell(number) for number in ids]

    def _spell(self, number: int) -> str:
        token = self.tokenizer.id_to_token(number)
        if token is None or number in self.special:
            # A row of the matrix that stands for no piece.
            return f"[{number}]" if token is None else str(token)
        text = str(token)
        return text.removeprefix(self._mark) if text.startswith(self._mark) else SPACE + text

    @property
    def reserved(self) -> tuple[int, ...]:
        """Ids that replacement never draws: specials, and rows that stand for no piece."""
        text = {*self._vocabulary.values()} - {*self.special}
        return tuple(i for i in range(self.settings.rows) if i not in text)

    def fingerprint(self) -> str:
        """Return a hash of everything that the tokens of a text depend on."""
        settings = json.dumps(asdict(replace(self.settings, model="")))
        return hashlib.sha256(f"{settings}\n{self.tokenizer.to_str()}".encode()).hexdigest()


class PairedSubwords:
    """Encode the source with the tokenizer of a BERT, the target with an encoding of our own."""

    tags: Mapping[str, int] = {}
    moses: Moses | None = None
    ciphers: Ciphers | None = None

    def __init__(self, source: WordPieces, target: Subwords) -> None:
        """Join two vocabularies.

        Args:
            source: the BERT's.
            target: ours.
        """
        self.source = source
        self.target = target
        self.source_begins = len(target)
        """First id of the source's vocabulary."""
        first = self.source_begins
        self.special: SpecialIds = replace(
            target.special,
            source=tuple(first + i for i in source.special),
            source_mask=first + source.settings.mask,
        )

    def __len__(self) -> int:
        return self.source_begins + self.source.settings.rows

    @property
    def source_opening(self) -> int:
        """`[CLS]`, as windows have it."""
        return self.source_begins + self.source.settings.opening

    @property
    def source_end(self) -> int:
        """`[SEP]`, as windows have it."""
        return self.source_begins + self.source.settings.end

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws, of both vocabularies."""
        source = (self.source_begins + i for i in self.source.reserved)
        return (*self.target.reserved_ids, *source)

    def encode(self, sentences: Sequence[str], side: SideName | None = None) -> list[list[int]]:
        """Encode sentences; an empty sentence has no tokens.

        Args:
            sentences: the text.
            side: which language it is in; must be given.
        """
        if side is None:
            raise ValueError("Two vocabularies need to know the side of the text.")
        if side == "target":
            return self.target.encode(sentences, side)
        first = self.source_begins
        return [[first + i for i in ids] for ids in self.source.encode(sentences)]

    def decode(self, ids: Sequence[int], side: SideName = "target") -> str:
        """Turn tokens back into text; special tokens vanish."""
        return self.joined(ids)

    def joined(self, ids: Sequence[int]) -> str:
        """Return the text of tokens of one side; special tokens vanish.

        Word pieces do not say where the text had spaces, so that a source comes back with a space
        before every word and sign, and in lower case if the BERT reads it so.
        """
        if not any(i >= self.source_begins for i in ids):
            return self.target.joined(ids)
        special = {*self.special.all}
        text = "".join(self.pieces(i for i in ids if i not in special))
        return text.replace(SPACE, " ").strip()

    def encode_markup(self, text: str) -> list[int]:
        """Encode text of the target in which the names of special tokens are these tokens."""
        return self.target.encode_markup(text)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return what tokens of either side spell, `▁` for a space."""
        first = self.source_begins
        return [
            (self.source.pieces([i - first]) if i >= first else self.target.pieces([i]))[0]
            for i in ids
        ]

    def split_tag(self, sentence: str) -> tuple[str | None, str]:
        """Return no tag: a pre-trained vocabulary has none of ours."""
        return None, sentence

    def save(self, folder: Path) -> None:
        """Write the files of both vocabularies."""
        self.target.save(folder)
        self.source.tokenizer.save(str(folder / _SOURCE_TOKENIZER))
        settings = json.dumps(asdict(self.source.settings), indent=2, ensure_ascii=False)
        write_text(folder / SOURCE_SETTINGS, settings + "\n")

    @classmethod
    def load(cls, folder: Path) -> "PairedSubwords":
        """Read what `save` wrote."""
        path = folder / _SOURCE_TOKENIZER
        try:
            settings = WordPieceSettings(**read_object(folder / SOURCE_SETTINGS))
            tokenizer: Any = Tokenizer.from_file(str(path))
        # The library raises plain exceptions.
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"{path} and {SOURCE_SETTINGS} cannot be read: {reason}") from None
        return cls(WordPieces(tokenizer, settings), Subwords.load(folder))
