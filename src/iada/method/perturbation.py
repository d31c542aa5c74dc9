"""Replace selected tokens.

Only ids change; roles, labels and masks are left as they are. All randomness comes from the
generator that is passed in.

`make_replacement` is the one place where Ω is chosen: training, objective, copies and inspection
all ask it. A further Ω is a class, a line in `REPLACEMENTS` and its name in `AugmentConfig`.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from iada.config.method import AugmentConfig
from iada.data.tokens.paired_subwords import PairedSubwords
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import Subwords
from iada.errors import ModelError

# What marks the space before a word: SentencePiece and our own encoding, and byte-level encodings.
_SPACES = ("▁", "Ġ")
_BYTE_PIECE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Replacement(Protocol):
    """Ω of eq. 4: what a token becomes when it is replaced."""

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return, for every position of `ids`, the token that would replace it."""
        ...


@dataclass(frozen=True)
class Drop:
    """Replace by the `<mask>` token (word dropout)."""

    mask_id: int

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return `<mask>` everywhere; draws nothing."""
        return torch.full_like(ids, self.mask_id)


@dataclass(frozen=True)
class Zero:
    """Keep the token; the model reads a zero vector where its embedding would be.

    The ids stay, so that whatever a model makes of them (positions, masks) stays too. See `zeroed`
    of `iada.models.observation.Changes`.
    """

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return the tokens themselves; draws nothing."""
        return ids


@dataclass(frozen=True)
class Keep:
    """Keep the token: for augmentations whose replacement probabilities are 0."""

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return the tokens themselves; draws nothing."""
        return ids


class Replace:
    """Replace by a token drawn uniformly from the vocabulary without the special tokens.

    The draw may hit the original token (probability 1 / vocabulary), as in the paper.
    """

    def __init__(self, vocab_size: int, special_ids: Collection[int]) -> None:
        excluded = set(special_ids)
        self.candidates = torch.tensor([i for i in range(vocab_size) if i not in excluded])
        if not len(self.candidates):
            raise ValueError(f"no ordinary token among {vocab_size} ids")

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Draw one token for every position."""
        if self.candidates.device != ids.device:
            self.candidates = self.candidates.to(ids.device)
        drawn = torch.randint(
            len(self.candidates), ids.shape, generator=generator, device=ids.device
        )
        return self.candidates[drawn].to(ids.dtype)


@dataclass(frozen=True)
class BySide:
    """Replace a token by one of its own vocabulary, where source and target have one each."""

    source_begins: int
    """First id of the source's vocabulary."""
    source: Replacement
    target: Replacement

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Draw for every position from both vocabularies, and keep what is of the token's own."""
        target, source = self.target(ids, generator), self.source(ids, generator)
        return torch.where(ids >= self.source_begins, source, target)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What is known of the tokens of a stream."""

    owner: str
    """What the vocabulary belongs to, for messages."""
    size: int
    """Ids are below this number."""
    reserved_ids: frozenset[int] | None = None
    """Ids that are never drawn: special tokens, language codes, byte pieces, and rows of the
    embedding matrix that stand for no token. None if they are not known."""
    mask_id: int | None = None
    """The `<mask>` token, if there is one."""
    word_starts: tuple[bool, ...] | None = None
    """For each id whether a word begins with it; None if that is not known."""
    source_begins: int | None = None
    """First id of the source, where it has a vocabulary of its own; `mask_id` is the target's."""
    source_mask_id: int | None = None
    """The `[MASK]` token of such a source."""

    @classmethod
    def of_tokenizer(cls, tokenizer: Any) -> "Vocabulary":
        """Read an encoding of ours, of a pre-trained model, or a Hugging Face tokenizer.

        Of the last, all special and all added tokens are reserved: T5's sentinels, the language
        codes of mBART and NLLB, `<unk>`.
        """
        if isinstance(tokenizer, PairedSubwords):
            return cls._of_both(tokenizer)
        if isinstance(tokenizer, Subwords | PretrainedSubwords):
            return cls(
                owner="the vocabulary",
                size=len(tokenizer),
                reserved_ids=frozenset(tokenizer.reserved_ids),
                mask_id=tokenizer.special.mask,
                word_starts=_word_starts(tokenizer.tokenizer.get_vocab().items(), len(tokenizer)),
            )
        pieces: dict[str, int] = tokenizer.get_vocab()
        size = 1 + max(pieces.values())
        reserved = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        reserved |= {number for piece, number in pieces.items() if _BYTE_PIECE.fullmatch(piece)}
        reserved |= {*range(size)} - {*pieces.values()}
        return cls(
            owner=type(tokenizer).__name__,
            size=size,
            reserved_ids=frozenset(reserved),
            mask_id=tokenizer.mask_token_id,
            word_starts=_word_starts(pieces.items(), size),
        )

    @classmethod
    def _of_both(cls, subwords: PairedSubwords) -> "Vocabulary":
        size = len(subwords)
        pieces = zip(subwords.pieces(range(size)), range(size), strict=True)
        return cls(
            owner="the vocabulary",
            size=size,
            reserved_ids=frozenset(subwords.reserved_ids),
            mask_id=subwords.special.mask,
            word_starts=_word_starts(pieces, size),
            source_begins=subwords.source_begins,
            source_mask_id=subwords.special.source_mask,
        )

    @classmethod
    def of_model(cls, model: nn.Module) -> "Vocabulary":
        """Read a model's configuration.

        No configuration lists sentinels or language codes, so ordinary tokens are known only of
        models that suppress their special tokens in generation, as those of
        `iada.models.build.build_model` do.
        """
        settings: Any = model.config
        names = ("pad", "bos", "eos", "unk", "decoder_start", "sep", "mask")
        ids = {name: getattr(settings, f"{name}_token_id", None) for name in names}
        generation: Any = getattr(model, "generation_config", None)
        suppressed = getattr(generation, "suppress_tokens", None)
        named = {number for number in ids.values() if isinstance(number, int)}
        return cls(
            owner=type(model).__name__,
            size=settings.vocab_size,
            reserved_ids=frozenset({*named, *suppressed}) if suppressed else None,
            mask_id=ids["mask"],
        )

    def limited_to(self, size: int) -> "Vocabulary":
        """Return the part that an embedding matrix of `size` rows can look up."""
        return replace(self, size=min(self.size, size))

    def sides(self) -> tuple["Vocabulary", "Vocabulary"] | None:
        """Return the vocabularies of source and target where these differ, else None."""
        if self.source_begins is None or self.size <= self.source_begins:
            return None
        reserved = self.reserved_ids
        if reserved is not None:
            reserved |= {*range(self.source_begins)}
        source = replace(
            self, reserved_ids=reserved, mask_id=self.source_mask_id, source_begins=None
        )
        return source, self.limited_to(self.source_begins)


def _word_starts(pieces: Iterable[tuple[str, int]], size: int) -> tuple[bool, ...]:
    """Return for each id whether a word begins with it, given all pieces and their ids.

    That is a piece with the sign of a space before it, and punctuation, so that the full stop after
    a word is not part of it. Bytes continue a word.
    """
    starts = [False] * size
    for piece, number in pieces:
        is_text = any(character.isalnum() for character in piece)
        starts[number] = piece.startswith(_SPACES) or not is_text
    return tuple(starts)


def _make_drop(vocabulary: Vocabulary) -> Replacement:
    if vocabulary.mask_id is None:
        raise ModelError(
            f"{vocabulary.owner} names no mask token. Set `augment.drop: zero`, or pass "
            "`replacement=Drop(mask_id)`."
        )
    return Drop(vocabulary.mask_id)


def _make_zero(vocabulary: Vocabulary) -> Replacement:
    return Zero()


def _make_replace(vocabulary: Vocabulary) -> Replacement:
    if vocabulary.reserved_ids is None:
        raise ModelError(
            f"{vocabulary.owner} does not say which of its {vocabulary.size} tokens are special, "
            "so that sentinels, language codes and <unk> would be drawn as replacements. Pass its "
            "tokenizer (`processing_class` of `IadaTrainer`, or `Vocabulary.of_tokenizer` as the "
            "`vocabulary` of `AugmentedObjective`), or `replacement=Replace(vocab_size, "
            "special_ids)`."
        )
    return Replace(vocabulary.size, vocabulary.reserved_ids)


REPLACEMENTS: dict[str, Callable[[Vocabulary], Replacement]] = {
    "mask": _make_drop,
    "zero": _make_zero,
    "replace": _make_replace,
}
"""How each Ω is made: by `augment.replacement`, or for `drop` by what `augment.drop` leaves."""


def make_replacement(config: AugmentConfig, vocabulary: Vocabulary) -> Replacement:
    """Make the Ω of an augmentation.

    Args:
        config: which one; nothing is asked of the vocabulary if no token is ever replaced.
        vocabulary: of the stream whose tokens are replaced.
    """
    if not config.replaces:
        return Keep()
    kind = config.drop if config.replacement == "drop" else config.replacement
    make = REPLACEMENTS[kind]
    sides = vocabulary.sides()
    if sides is None:
        return make(vocabulary)
    assert vocabulary.source_begins is not None
    return BySide(vocabulary.source_begins, *map(make, sides))


def word_start_table(config: AugmentConfig, vocabulary: Vocabulary) -> Tensor | None:
    """Return (vocabulary,) bool, whether a word begins with a piece; None for the unit `piece`."""
    if config.unit == "piece":
        return None
    if vocabulary.word_starts is None:
        raise ModelError(
            f"`augment.unit: word` needs the pieces of words, which {vocabulary.owner} does not "
            "tell. Pass its tokenizer (`processing_class` of `IadaTrainer`, or "
            "`Vocabulary.of_tokenizer` as the `vocabulary` of `AugmentedObjective`)."
        )
    return torch.tensor(vocabulary.word_starts)


def perturb(
    ids: Tensor,
    probability: Tensor,
    replacement: Replacement,
    *,
    generator: torch.Generator,
    heads: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Replace each token with its own probability (eq. 4).

    Args:
        ids: (batch, length) tokens.
        probability: (batch, length) replacement probabilities; 0 keeps a token for certain.
        replacement: what a selected token becomes.
        generator: source of all randomness, on the device of `ids`.
        heads: (batch, length) position of the first piece of each token's word, whose draw decides
            for the whole word; without it each token is drawn by itself.

    Returns:
        The perturbed ids and the bool mask of the selected positions, both (batch, length).
    """
    # Always float32: the same generator draws the same numbers whatever the model's precision.
    uniform = torch.rand(ids.shape, generator=generator, device=ids.device, dtype=torch.float32)
    if heads is not None:
        uniform = uniform.gather(1, heads)
    selected = uniform < probability
    return torch.where(selected, replacement(ids, generator), ids), selected
