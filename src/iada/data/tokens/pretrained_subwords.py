"""The tokenizer of a pre-trained model, behind the interface of our own encoding.

A sentence is encoded without special tokens; what opens, separates and closes the sentences of a
window is a matter of the model's family (`iada.data.windows.families`). In the token store every
sentence is followed by `</s>`, which no text can spell: where a tokenizer would read a special
token in the text itself, the text becomes unknown tokens instead.

Sentences of a decoder-only model stand inside running text, so each is encoded with the space
before it where the tokenizer does not write one itself, and decoded without.

Saved as the tokenizer's own files and `pretrained.json`, which names the family, the languages and
what the model's configuration says of its vocabulary; `seen.json` beside it lists the pieces of the
training text, where they alone may replace others.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import decoders

from iada.data.tokens.checkpoint_facts import (
    CAUSAL,
    checkpoint_longest,
    checkpoint_prompt,
    checkpoint_rows,
    checkpoint_start,
    family_of,
    load_tokenizer,
    read_model_config,
)
from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.languages import find_language_code, language_name
from iada.data.tokens.paired_subwords import SOURCE_SETTINGS, PairedSubwords
from iada.data.tokens.pretokenize import Moses, SideName
from iada.data.tokens.subwords import SPACE, SpecialIds, SubwordEncoding, Subwords
from iada.errors import DataError, ModelError
from iada.storage import read_object, write_text

_SETTINGS_FILE = "pretrained.json"
_SEEN_FILE = "seen.json"
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_SENTINEL = re.compile(r"<extra_id_\d+>|<unused_?\d+>|\[unused\d+\]|madeupword\d+")
_CODE_TOKENS = {
    "marian": re.compile(">>(.+)<<"),
    "mbart": re.compile("([a-z]{2}_[A-Z]{2})"),
    "mbart50": re.compile("([a-z]{2}_[A-Z]{2})"),
    "m2m100": re.compile("__([a-z]{2,3})__"),
    "nllb": re.compile("([a-z]{3}_[A-Z][a-z]{3})"),
    "nllb_legacy": re.compile("([a-z]{3}_[A-Z][a-z]{3})"),
    "t5": re.compile("<2([A-Za-z_]+)>"),
}
"""How each family writes its language codes; a family that is not named has none."""
_ALWAYS_CODED = ("mbart", "mbart50", "m2m100", "nllb", "nllb_legacy")
"""Families whose models read a language code in every sentence."""


@dataclass(frozen=True, kw_only=True)
class PretrainedSettings:
    """What a tokenizer does not know of its model."""

    model: str
    """Folder or hub name that the tokenizer was taken from."""
    family: str
    """Name in `iada.data.windows.families.FAMILIES`, `causal`, or `other`."""
    rows: int
    """Rows of the model's embedding matrix."""
    start: int
    """Id that opens every decoder input."""
    forced: int | None = None
    """Id that a model of another family must say first."""
    source_code: str | None = None
    """Language code of the source, where the family has codes; its name for `causal`."""
    target_code: str | None = None
    """Language code of the target, likewise."""
    prompt: str = ""
    """Text before every source, such as T5's `translate English to German: `."""
    max_length: int | None = None
    """Longest sequence that the model can read or write; None if there is no limit."""


class PretrainedSubwords:
    """Encode and decode sentences with the tokenizer of a pre-trained model."""

    tags: Mapping[str, int] = {}
    moses: Moses | None = None
    ciphers: Ciphers | None = None

    def __init__(self, tokenizer: Any, settings: PretrainedSettings) -> None:
        """Wrap a tokenizer.

        Args:
            tokenizer: a tokenizer of Transformers.
            settings: what it does not know of its model.
        """
        if getattr(tokenizer, "separate_vocabs", False):
            raise ModelError(
                f"{settings.model} has a vocabulary for each language, so that one id means two "
                "pieces. Choose a model with a joint vocabulary."
            )
        for attribute, code in (
            ("src_lang", settings.source_code),
            ("tgt_lang", settings.target_code),
        ):
            if code is not None and hasattr(tokenizer, attribute):
                setattr(tokenizer, attribute, code)
        self.tokenizer = tokenizer
        self.settings = settings
        self.codes = _language_codes(tokenizer, settings.family)
        """Id of each language code, without its decoration."""
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        self.special = self._special_ids()
        others = {self.special.pad, self.special.bos, self.special.eos}
        self._has_unknown = self.special.unk not in others
        """Whether there is a token for unknown text; tokenizers of bytes need none."""
        known = {self.special.unk} if self._has_unknown else set()
        self._text_is_unknown = frozenset(self.special.all) - known
        self.seen: frozenset[int] | None = None
        """Pieces of the training text, if replacement draws no others."""
        self._lead = " " if self.is_causal and not self._marks_words else ""
        if (largest := max(self._vocabulary.values())) >= settings.rows:
            raise ModelError(
                f"The tokenizer of {settings.model} has ids up to {largest}, but the model only "
                f"{settings.rows} embeddings. Use the tokenizer that belongs to the model."
            )

    @classmethod
    def from_checkpoint(
        cls,
        name: str,
        *,
        source_language: str,
        target_language: str,
        source_code: str | None = None,
        target_code: str | None = None,
    ) -> "PretrainedSubwords":
        """Load the tokenizer of a checkpoint for a pair of languages.

        Args:
            name: folder or hub name of the model.
            source_language: what the corpus calls the source language.
            target_language: what the corpus calls the target language.
            source_code: the model's own code of the source language, if it does not follow.
            target_code: the model's own code of the target language, likewise.

        Raises:
            ModelError: the checkpoint cannot be read, or is no model that translates.
            ConfigError: the model has no code for a language.
        """
        config = read_model_config(name)
        tokenizer = load_tokenizer(name)
        family = family_of(config, tokenizer)
        codes = _language_codes(tokenizer, family)
        names = {
            "source": source_code or source_language,
            "target": target_code or target_language,
        }
        if family in ("marian", "t5"):
            # Only the target is named, and only by models of several target languages.
            del names["source"]
        found = {
            side: find_language_code(
                language,
                codes,
                key=f"data.{side}_language",
                model=name,
                instead=f"`model.{side}_code`",
            )
            for side, language in names.items()
            if codes or family in _ALWAYS_CODED
        }
        if family == CAUSAL:
            found = {
                "source": source_code or language_name(source_language),
                "target": target_code or language_name(target_language),
            }
        settings = PretrainedSettings(
            model=name,
            family=family,
            rows=checkpoint_rows(config),
            start=checkpoint_start(config, tokenizer, name),
            forced=getattr(config, "forced_bos_token_id", None) if family == "other" else None,
            source_code=found.get("source"),
            target_code=found.get("target"),
            prompt=checkpoint_prompt(config, source_language, target_language),
            max_length=checkpoint_longest(config),
        )
        return cls(tokenizer, settings)

    @classmethod
    def load(cls, folder: Path) -> "PretrainedSubwords":
        """Read what `save` wrote."""
        try:
            parsed = PretrainedSettings(**read_object(folder / _SETTINGS_FILE))
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{folder / _SETTINGS_FILE} cannot be read: {error}") from None
        subwords = cls(load_tokenizer(str(folder)), parsed)
        if (seen := folder / _SEEN_FILE).is_file():
            subwords.seen = frozenset(json.loads(seen.read_text(encoding="utf-8")))
        return subwords

    def save(self, folder: Path) -> None:
        """Write the tokenizer's own files and `pretrained.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(folder)
        text = json.dumps(asdict(self.settings), indent=2, ensure_ascii=False)
        write_text(folder / _SETTINGS_FILE, text + "\n")
        if self.seen is not None:
            write_text(folder / _SEEN_FILE, json.dumps(sorted(self.seen)) + "\n")

    def fingerprint(self) -> str:
        """Return a hash of everything that the tokens of a text depend on."""
        digest = hashlib.sha256(json.dumps(asdict(replace(self.settings, model=""))).encode())
        with TemporaryDirectory() as name:
            self.tokenizer.save_pretrained(name)
            for path in sorted(Path(name).iterdir()):
                # It records where the tokenizer was loaded from.
                if path.name != "tokenizer_config.json":
                    digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return self.settings.rows

    @property
    def is_causal(self) -> bool:
        """Whether the model is decoder-only."""
        return self.settings.family == CAUSAL

    def see(self, *texts: npt.NDArray[np.integer]) -> None:
        """Let replacement draw only the pieces of some tokens, if the model is decoder-only.

        The vocabularies of such models hold the words of many languages and of code, so that nearly
        every piece drawn from the whole would be foreign to the text.
        """
        if self.is_causal and self.seen is None:
            pieces = np.unique(np.concatenate([np.unique(ids) for ids in texts]))
            self.seen = frozenset(pieces.tolist())

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws.

        They are specials, language codes, sentinels, byte pieces, rows of the embedding matrix that
        stand for no piece, and whatever was not `seen`.
        """
        pieces = {i for token, i in self._vocabulary.items() if not _BYTE.fullmatch(token)}
        text = pieces - set(self.special.all)
        if self.seen is not None:
            text &= self.seen
        return tuple(i for i in range(len(self)) if i not in text)

    def encode(self, sentences: Sequence[str], side: SideName | None = None) -> list[list[int]]:
        """Encode sentences without special tokens; an empty sentence has no tokens.

        Args:
            sentences: the text.
            side: which language it is in; Marian has a segmentation for each.
        """
        filled = [self._lead + text for text in sentences if text]
        if not filled:
            return [[] for _ in sentences]
        options = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        if side == "target":
            encoded = iter(self.tokenizer(text_target=filled, **options)["input_ids"])
        else:
            encoded = iter(self.tokenizer(filled, **options)["input_ids"])
        return [self._as_text(next(encoded)) if text else [] for text in sentences]

    def decode(self, ids: Sequence[int], side: SideName = "target") -> str:
        """Turn tokens back into text; special tokens vanish."""
        return self.joined(ids)

    def joined(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special tokens vanish."""
        special = set(self.special.all)
        text = [i for i in ids if i not in special]
        decoded = str(self.tokenizer.decode(text, clean_up_tokenization_spaces=False))
        return decoded.removeprefix(self._lead)

    def encode_markup(self, text: str) -> list[int]:
        """Encode text in which the names of special tokens are these tokens."""
        options = {"add_special_tokens": False, "verbose": False}
        return list(self.tokenizer(text, **options)["input_ids"]) if text else []

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """What the tokenizer itself writes before every text."""
        (plain,) = (self.tokenizer("a", add_special_tokens=False)["input_ids"],)
        written = list(self.tokenizer("a")["input_ids"])
        return tuple(written[: written.index(plain[0])])

    @cached_property
    def line_breaks(self) -> tuple[int, ...]:
        """Ids of the pieces that hold a line break."""
        marks = ("\n", "Ċ") if self._is_byte_level else ("\n", "<0x0A>")
        special = set(self.special.all)
        return tuple(
            sorted(
                number
                for piece, number in self._vocabulary.items()
                if number not in special and any(mark in piece for mark in marks)
            )
        )

    @property
    def _marks_words(self) -> bool:
        """Whether the first word of a text is written like those after it."""
        first = str(self.tokenizer.tokenize("a")[0])
        return first.startswith((SPACE, "Ġ"))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return what tokens spell: `▁` for a space, `<0xC3>` for a part of a character."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        return [self._spell(str(token)) for token in tokens] if self._is_byte_level else tokens

    def split_tag(self, sentence: str) -> tuple[str | None, str]:
        """Return no tag: a pre-trained vocabulary has none of ours."""
        return None, sentence

    @cached_property
    def _is_byte_level(self) -> bool:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return backend is not None and isinstance(backend.decoder, decoders.ByteLevel)

    def _spell(self, token: str) -> str:
        if token in self.tokenizer.all_special_tokens:
            return token
        text = str(self.tokenizer.backend_tokenizer.decoder.decode([token]))
        if "�" not in text:
            return text.replace(" ", SPACE)
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        signs: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]
        byte = {sign: value for value, sign in signs.items()}.get(token)
        return token if byte is None else f"<0x{byte:02X}>"

    def _as_text(self, ids: list[int]) -> list[int]:
        """Replace special tokens, which the text itself has spelled, by unknown ones."""
        if self._text_is_unknown.isdisjoint(ids):
            return ids
        if not self._has_unknown:
            found = self.tokenizer.convert_ids_to_tokens([*{*ids} & self._text_is_unknown])
            raise DataError(
                f"The text spells {', '.join(found)}, special to {self.settings.model}, whose "
                "vocabulary has no token for unknown text. Remove it from the text."
            )
        return [self.special.unk if i in self._text_is_unknown else i for i in ids]

    def _special_ids(self) -> SpecialIds:
        tokenizer, start = self.tokenizer, self.settings.start
        # Decoder-only models may have neither padding nor unknown text: masks hide the one, bytes
        # spell the other.
        instead = tokenizer.eos_token_id if self.is_causal else None
        needed = {"</s>": tokenizer.eos_token_id}
        for name, number in (("<pad>", tokenizer.pad_token_id), ("<unk>", tokenizer.unk_token_id)):
            needed[name] = instead if number is None else number
        if missing := [name for name, number in needed.items() if number is None]:
            raise ModelError(f"The tokenizer of {self.settings.model} lacks {', '.join(missing)}.")
        eos, pad, unk = needed.values()
        bos = start if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        sentinels = (i for token, i in self._vocabulary.items() if _SENTINEL.fullmatch(token))
        others = {*tokenizer.all_special_ids, *self.codes.values(), *sentinels, start}
        mask = tokenizer.mask_token_id
        return SpecialIds(
            pad=pad,
            bos=bos,
            eos=eos,
            unk=unk,
            sep=eos,
            mask=mask,
            others=tuple(sorted(others - {pad, bos, eos, unk, mask})),
        )


def load_subwords(folder: Path) -> SubwordEncoding:
    """Load the encoding of a folder: our own, that of a pre-trained model, or one of each."""
    if (folder / SOURCE_SETTINGS).is_file():
        return PairedSubwords.load(folder)
    if (folder / _SETTINGS_FILE).is_file():
        return PretrainedSubwords.load(folder)
    return Subwords.load(folder)


def _language_codes(tokenizer: Any, family: str) -> dict[str, int]:
    pattern = _CODE_TOKENS.get(family)
    if pattern is None:
        return {}
    # M2M100 keeps its codes apart from its vocabulary.
    tokens = tokenizer.get_vocab() | getattr(tokenizer, "lang_token_to_id", {})
    matches = ((pattern.fullmatch(token), number) for token, number in tokens.items())
    return {match[1]: number for match, number in matches if match is not None}
