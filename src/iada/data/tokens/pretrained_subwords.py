"""The tokenizer of a pre-trained model, behind the interface of our own encoding.

A sentence is encoded without special tokens; what opens, separates and closes the sentences of a
window is a matter of the model's family (`iada.data.windows.families`). In the token store every
sentence is followed by `</s>`, which no text can spell: where a tokenizer would read a special
token in the text itself, the text becomes unknown tokens instead.

Saved as the tokenizer's own files and `pretrained.json`, which names the family, the languages and
what the model's configuration says of its vocabulary.
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

from tokenizers import decoders

from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.languages import find_language_code
from iada.data.tokens.pretokenize import Moses, SideName
from iada.data.tokens.subwords import SPACE, SpecialIds, SubwordEncoding, Subwords
from iada.errors import ConfigError, IadaError, ModelError
from iada.storage import read_object, write_text

_SETTINGS_FILE = "pretrained.json"
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
    """Name in `iada.data.windows.families.FAMILIES`, or `other`."""
    rows: int
    """Rows of the model's embedding matrix."""
    start: int
    """Id that opens every decoder input."""
    forced: int | None = None
    """Id that a model of another family must say first."""
    source_code: str | None = None
    """Language code of the source, where the family has codes."""
    target_code: str | None = None
    """Language code of the target, where the family has codes."""
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
        self._text_is_unknown = frozenset(self.special.all) - {self.special.unk}
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
            ModelError: the checkpoint cannot be read, or is no encoder-decoder.
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
        settings = PretrainedSettings(
            model=name,
            family=family,
            rows=_rows(config),
            start=_start(config, tokenizer, name),
            forced=getattr(config, "forced_bos_token_id", None) if family == "other" else None,
            source_code=found.get("source"),
            target_code=found.get("target"),
            prompt=_prompt(config, source_language, target_language),
            max_length=_longest(config),
        )
        return cls(tokenizer, settings)

    @classmethod
    def load(cls, folder: Path) -> "PretrainedSubwords":
        """Read what `save` wrote."""
        try:
            parsed = PretrainedSettings(**read_object(folder / _SETTINGS_FILE))
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{folder / _SETTINGS_FILE} cannot be read: {error}") from None
        return cls(load_tokenizer(str(folder)), parsed)

    def save(self, folder: Path) -> None:
        """Write the tokenizer's own files and `pretrained.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(folder)
        text = json.dumps(asdict(self.settings), indent=2, ensure_ascii=False)
        write_text(folder / _SETTINGS_FILE, text + "\n")

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

    @cached_property
    def reserved_ids(self) -> tuple[int, ...]:
        """Ids that replacement never draws.

        They are specials, language codes, sentinels, byte pieces, and rows of the embedding matrix
        that stand for no piece.
        """
        pieces = {i for token, i in self._vocabulary.items() if not _BYTE.fullmatch(token)}
        text = pieces - set(self.special.all)
        return tuple(i for i in range(len(self)) if i not in text)

    def encode(self, sentences: Sequence[str], side: SideName | None = None) -> list[list[int]]:
        """Encode sentences without special tokens; an empty sentence has no tokens.

        Args:
            sentences: the text.
            side: which language it is in; Marian has a segmentation for each.
        """
        filled = [text for text in sentences if text]
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
        return str(self.tokenizer.decode(text, clean_up_tokenization_spaces=False))

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
        return [self.special.unk if i in self._text_is_unknown else i for i in ids]

    def _special_ids(self) -> SpecialIds:
        tokenizer, start = self.tokenizer, self.settings.start
        needed = {
            "</s>": tokenizer.eos_token_id,
            "<pad>": tokenizer.pad_token_id,
            "<unk>": tokenizer.unk_token_id,
        }
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
    """Load the encoding of a folder, our own or that of a pre-trained model."""
    if (folder / _SETTINGS_FILE).is_file():
        return PretrainedSubwords.load(folder)
    return Subwords.load(folder)


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a folder or hub name; no code of a checkpoint is ever run."""
    # Imported here: it takes longer than most commands, and only pre-trained models need it.
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError, TypeError) as error:
        raise _unreadable(f"the tokenizer of {name}", error) from None


def read_model_config(name: str) -> Any:
    """Read the configuration of a pre-trained encoder-decoder."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise _unreadable(name, error) from None
    if not getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{name} is a {config.model_type} model, not an encoder-decoder. Use one such as "
            "Marian, mBART, NLLB, T5 or BART."
        )
    return config


def _unreadable(what: str, error: Exception) -> IadaError:
    reason = " ".join(str(error).split())
    advice = "Give a folder with a checkpoint, or a name that the hub knows and can be reached."
    libraries = ("protobuf", "sentencepiece", "tiktoken")
    if isinstance(error, ImportError) or any(name in reason.lower() for name in libraries):
        advice = "Install what it needs with `pip install 'iada[pretrained]'`."
    return ModelError(f"`model.pretrained`: {what} cannot be loaded. {advice} ({reason[:300]})")


def family_of(config: Any, tokenizer: Any) -> str:
    """Return the family of a model; `mbart` and `m2m_100` models come with two tokenizers each."""
    kind, tokenizer_class = config.model_type, type(tokenizer).__name__
    if kind == "mbart" and tokenizer_class.startswith("MBart50"):
        return "mbart50"
    if kind in ("m2m_100", "nllb-moe") and tokenizer_class.startswith("Nllb"):
        return "nllb_legacy" if getattr(tokenizer, "legacy_behaviour", False) else "nllb"
    names = {"m2m_100": "m2m100", "mt5": "t5", "umt5": "t5", "longt5": "t5"}
    family = names.get(kind, kind)
    return family if family in ("marian", "mbart", "m2m100", "t5", "bart") else "other"


def _language_codes(tokenizer: Any, family: str) -> dict[str, int]:
    pattern = _CODE_TOKENS.get(family)
    if pattern is None:
        return {}
    # M2M100 keeps its codes apart from its vocabulary.
    tokens = tokenizer.get_vocab() | getattr(tokenizer, "lang_token_to_id", {})
    matches = ((pattern.fullmatch(token), number) for token, number in tokens.items())
    return {match[1]: number for match, number in matches if match is not None}


def _rows(config: Any) -> int:
    return int(config.get_text_config(decoder=True).vocab_size)


def _start(config: Any, tokenizer: Any, name: str) -> int:
    candidates = (
        getattr(config, "decoder_start_token_id", None),
        tokenizer.bos_token_id,
        tokenizer.pad_token_id,
    )
    for number in candidates:
        if number is not None:
            return int(number)
    raise ConfigError(f"{name} does not say what opens a translation (decoder_start_token_id).")


def _prompt(config: Any, source_language: str, target_language: str) -> str:
    """Return the text that T5 was taught to read before a source of these languages."""
    tasks = getattr(config, "task_specific_params", None) or {}
    task = tasks.get(f"translation_{source_language}_to_{target_language}") or {}
    return str(task.get("prefix", ""))


def _longest(config: Any) -> int | None:
    names = (
        "max_position_embeddings",
        "max_encoder_position_embeddings",
        "max_decoder_position_embeddings",
    )
    limits = [limit for name in names if (limit := getattr(config, name, None)) is not None]
    return min(map(int, limits), default=None)
