"""The sentences of a window as a model sees them: numbers, places and attention masks.

Windows describe themselves: boundaries are special tokens, never perturbed and never drawn, so the
sentence that a token belongs to is read off the ids, in training and in decoding alike.

    source         number = boundaries before the token        a boundary ends its sentence
    decoder input  number = boundaries up to the token, - 1    a boundary opens its sentence

`first_sentence` aligns the two sides: target sentence i translates source sentence
`first_sentence + i`. A `Layout` is made once per forward pass and handed down through the layers;
it makes each mask once, whatever the number of layers.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Place = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class Rule:
    """Which keys a query may see; in a decoder never one that comes later."""

    kind: Literal["own", "all", "current", "previous", "back", "recent"]
    distance: int = 0


OWN = Rule("own")
"""Tokens of the same sentence; across the two sides, of its translation."""
ALL = Rule("all")
"""Every token of the window."""
CURRENT = Rule("current")
"""Tokens of the source sentences that are translated."""


PREVIOUS = Rule("previous")
"""Tokens of the sentence before the query's own."""


def back(distance: int) -> Rule:
    """Words, not boundaries, of the sentence that is `distance` before the query's own."""
    return Rule("back", distance)


def recent(distance: int) -> Rule:
    """Tokens of the last sentence of the window and of `distance` sentences before it.

    Queries in sentences before those see their own and `distance` before it.
    """
    return Rule("recent", distance)


@dataclass(frozen=True)
class Sentences:
    """The sentences of one side of a batch; every tensor is (rows, length)."""

    numbers: Tensor
    """Number of each token's sentence in its window, from 0."""
    places: Tensor
    """Position of each token in its own sentence."""
    positions: Tensor
    """Position of each token in the window, padding not counted."""
    present: Tensor
    """True where there is a token, not padding."""
    words: Tensor
    """True where the token is a word, neither boundary nor unknown."""

    def counted(self, *, restarts: bool) -> Tensor:
        """Return the position of each token, in its own sentence if counting restarts there."""
        return self.places if restarts else self.positions


def read_sentences(
    ids: Tensor, mask: Tensor | None, *, boundaries: tuple[int, ...], unknown: int, opens: bool
) -> Sentences:
    """Read the sentences of one side off its tokens.

    Args:
        ids: (rows, length).
        mask: (rows, length), 0 on padding; there is none by default.
        boundaries: ids that end source sentences or open target sentences.
        unknown: id of the unknown token.
        opens: whether a boundary opens a sentence, not ends it.
    """
    present = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    boundary = torch.isin(ids, torch.tensor(boundaries, device=ids.device)) & present
    # Seven boundaries before a token are sentence 7, whatever the row.
    counted = boundary.cumsum(dim=1)
    begins = boundary if opens else boundary.roll(1, dims=1)
    index = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    if not opens:
        begins = begins.clone()
        begins[:, 0] = True
    start = torch.where(begins, index, torch.zeros_like(index)).cummax(dim=1).values
    return Sentences(
        numbers=counted - 1 if opens else counted - boundary.long(),
        places=index - start,
        positions=(present.cumsum(dim=1) - 1).clamp(min=0),
        present=present,
        words=present & ~boundary & (ids != unknown),
    )


def find_fault(
    source: Tensor,
    attention_mask: Tensor,
    target: Tensor,
    *,
    opening: int,
    end: int,
    separator: int | None,
) -> str | None:
    """Say what keeps sentences from being read off a batch; None if nothing does.

    Args:
        source: (rows, source length) ids.
        attention_mask: (rows, source length), 1 where there is no padding.
        target: (rows, target length) ids of the decoder input.
        opening: what a decoder input must begin with.
        end: what a source must end with.
        separator: what may not stand between sentences; None if it may.
    """
    last = attention_mask.long().sum(dim=1, keepdim=True) - 1
    if bool((source.gather(1, last) != end).any()):
        return "a source that does not end with `</s>`"
    if bool((target[:, 0] != opening).any()):
        return "a decoder input that does not begin with `<s>`"
    if separator is not None and bool((source == separator).any()):
        return "`<sep>` between sentences"
    return None


@dataclass
class Layout:
    """Sentences of both sides and the masks between them, for one forward pass."""

    source: Sentences
    first_sentence: Tensor
    """(rows,): source sentences before the first target sentence."""
    target: Sentences | None = None
    """The whole decoder input; None while the encoder runs alone."""
    source_ids: Tensor | None = None
    """(rows, source length): what `source` was read off."""
    queries: int = 0
    """Decoder positions of this pass, the last of the decoder input."""
    one_current: bool = False
    """Whether one sentence is current and others may follow it; else all up to the last are."""
    _masks: dict[tuple[Place, Rule], Tensor] = field(default_factory=dict)

    @property
    def is_current(self) -> Tensor:
        """(rows, source length): true for tokens of the sentences that are translated.

        For windows without target context, or whose sentences are all translated.
        """
        first = self.first_sentence[:, None]
        numbers = self.source.numbers
        return numbers == first if self.one_current else numbers >= first

    def mask(self, place: Place, rule: Rule) -> Tensor:
        """(rows, 1, queries, keys): true where a query may see a key.

        A query whose rule leaves it nothing, such as padding or a target sentence without source,
        sees all that is there, so that no softmax is empty.
        """
        if (place, rule) not in self._masks:
            visible = self.visible(place, rule)
            present = self._sides(place)[1].present[:, None, :]
            visible = visible | (present & ~visible.any(dim=-1, keepdim=True))
            self._masks[place, rule] = visible[:, None]
        return self._masks[place, rule]

    def visible(self, place: Place, rule: Rule) -> Tensor:
        """(rows, queries, keys): like `mask`, but a query may be left with nothing."""
        queries, keys, offset = self._sides(place)
        number = queries.numbers[:, -self._count(place) :, None] + offset[:, None, None]
        distance = number - keys.numbers[:, None, :]
        present = keys.present[:, None, :]
        visible = present.expand_as(distance)
        if rule.kind == "own":
            visible = visible & (distance == 0)
        elif rule.kind == "current":
            visible = visible & self.is_current[:, None, :]
        elif rule.kind == "back":
            visible = keys.words[:, None, :] & (distance == rule.distance)
        elif rule.kind == "previous":
            visible = visible & (distance == 1)
        elif rule.kind == "recent":
            # Those before read as far back as they would if they were the last.
            first = last_number(keys)[:, None, :] - rule.distance
            is_early = number < first
            reached = (distance >= 0) & (distance <= rule.distance)
            near = keys.numbers[:, None, :] >= first
            visible = visible & torch.where(is_early, reached, near)
        if place == "decoder":
            length = keys.numbers.shape[1]
            causal = torch.ones(length, length, dtype=torch.bool, device=present.device).tril()
            visible = visible & causal[-self.queries :]
        return visible

    def _count(self, place: Place) -> int:
        return self.source.numbers.shape[1] if place == "encoder" else self.queries

    def _sides(self, place: Place) -> tuple[Sentences, Sentences, Tensor]:
        """Return queries, keys, and what makes a query's sentence number comparable to a key's."""
        if place == "encoder":
            return self.source, self.source, torch.zeros_like(self.first_sentence)
        assert self.target is not None, "the decoder needs its own sentences"
        if place == "decoder":
            return self.target, self.target, torch.zeros_like(self.first_sentence)
        return self.target, self.source, self.first_sentence


def last_number(sentences: Sentences) -> Tensor:
    """(rows, 1): number of the last sentence of each row."""
    return torch.where(sentences.present, sentences.numbers, -1).amax(dim=1, keepdim=True)
