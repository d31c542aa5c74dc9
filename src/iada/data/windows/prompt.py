"""The frame of decoder-only models: the pairs of a window in one sequence, a template around them.

    input    opening  S c T d E  I S x T y       S, T, E and I: the template's pieces
    labels                               y </s>  at every position: what comes next

Sentences are tokenised alone, the pieces of the template once, and both are joined as ids, so that
training and translation read the same tokens. All that is no sentence is special: never perturbed,
outside the statistics of importance and outside the loss.

Every translation that is learned from ends in `</s>`, those of the context (`windows.loss_on: all`)
too: their last token predicts the end, although the template comes next in the input. So a
sentence ends alike wherever it stands in a window.

`write_prompt` writes one window, readably; `write_prompts` all windows of a batch at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iada.data.prepared.store import Ids, Offsets
from iada.data.windows.batch import IGNORED, Gathered, Role, Roles
from iada.data.windows.frame import Bools, Frame, Places


@dataclass(frozen=True, kw_only=True)
class Prompt(Frame):
    """How the sentence pairs of a window become the one sequence that a model reads."""

    opening: tuple[int, ...]
    """What opens a window."""
    before_source: tuple[int, ...]
    """What stands before every source sentence."""
    before_target: tuple[int, ...]
    """What stands before every target sentence, at least one token."""
    after_pair: tuple[int, ...]
    """What stands after every pair but the last."""
    before_current: tuple[int, ...] = ()
    """What stands between the context and the current part, where there is context."""
    stops: tuple[int, ...] = ()
    """What ends a translation beside `target_end`: the pieces with a line break."""

    @classmethod
    def of_pieces(
        cls,
        opening: Sequence[int],
        before_source: Sequence[int],
        before_target: Sequence[int],
        after_pair: Sequence[int],
        before_current: Sequence[int] = (),
        *,
        end: int,
        stops: Sequence[int] = (),
    ) -> "Prompt":
        """Make the frame of a template; `end` closes a translation."""
        return cls(
            opening=tuple(opening),
            before_source=tuple(before_source),
            before_target=tuple(before_target),
            after_pair=tuple(after_pair),
            before_current=tuple(before_current),
            stops=tuple(stops),
            source_end=(),
            target_begin=tuple(before_target),
            target_end=end,
            separator=end,
            ends="each",
        )

    @property
    def tokens(self) -> frozenset[int]:
        """Ids that are special wherever they stand; the template's are so in their place alone."""
        return frozenset((self.target_end,))

    @property
    def per_pair(self) -> int:
        """Tokens of a pair beyond its sentences as the store has them, with `<sep>` after each."""
        return len(self.before_source) + len(self.before_target) + len(self.after_pair) - 2

    @property
    def per_window(self) -> int:
        """Tokens of a window with context beyond those of its pairs; without, at most as many."""
        return len(self.opening) - len(self.after_pair) + len(self.before_current)

    def request(
        self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
    ) -> tuple[list[int], list[int]]:
        """Write what the model is given to translate the last source sentence.

        Args:
            source: the context as far as it is given, and the sentence.
            target: translations of the context as far as they are given.

        Returns:
            No source, and the prompt.
        """
        *context, current = source
        written = [*self.opening]
        for back in range(max(len(context), len(target)), 0, -1):
            if back <= len(context):
                written += [*self.before_source, *context[-back]]
            if back <= len(target):
                written += [*self.before_target, *target[-back]]
            written += self.after_pair
        if context or target:
            written += self.before_current
        return [], [*written, *self.before_source, *current, *self.before_target]

    def places(
        self, source: Sequence[int], target: Sequence[int], context: int
    ) -> tuple[Places, Places]:
        """Return where the sentences of a window stand in its sequence."""
        found: tuple[Places, Places] = ([], [])
        position = len(self.opening)
        for number, lengths in enumerate(zip(source, target, strict=True)):
            position += len(self.before_current) if number and number == context else 0
            for side, before in enumerate((self.before_source, self.before_target)):
                begin = position + len(before)
                position = begin + lengths[side]
                found[side].append((begin, position))
            position += len(self.after_pair)
        return found


class PromptRows(NamedTuple):
    """Windows end to end; all but `lengths` are (tokens,)."""

    ids: Ids
    source_roles: Roles
    target_roles: Roles
    labels: Offsets
    lengths: Offsets
    """(windows,)"""


def write_prompt(
    frame: Prompt,
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    *,
    context: int,
    special: Sequence[int],
    loss_on_context: bool,
) -> PromptRows:
    """Write one window.

    Args:
        frame: the template.
        source: tokens of its source sentences.
        target: tokens of its target sentences, as many.
        context: how many of the pairs are context.
        special: ids that are special wherever they stand.
        loss_on_context: whether the translations of the context are learned too.
    """
    ids = [*frame.opening]
    for number, (one, other) in enumerate(zip(source, target, strict=True)):
        ids += frame.after_pair if number else ()
        ids += frame.before_current if number and number == context else ()
        ids += [*frame.before_source, *one, *frame.before_target, *other]
    roles = np.full((2, len(ids)), Role.SPECIAL, dtype=np.int8)
    labels = np.full(len(ids), IGNORED, dtype=np.int64)
    places = frame.places([len(one) for one in source], [len(one) for one in target], context)
    for side in (0, 1):
        for number, (begin, stop) in enumerate(places[side]):
            roles[side, begin:stop] = Role.CONTEXT if number < context else Role.CURRENT
    roles[:, np.isin(ids, special)] = Role.SPECIAL
    for number, (begin, stop) in enumerate(places[1]):
        if number >= context or loss_on_context:
            labels[begin - 1 : stop] = [*ids[begin:stop], frame.target_end]
    tokens = np.array(ids, dtype=np.int32)
    return PromptRows(tokens, roles[0], roles[1], labels, np.array([len(ids)]))


# Places of the sentences among the runs of tokens that a pair is made of.
_SOURCE, _TARGET = 3, 5


def write_prompts(
    frame: Prompt,
    source: Gathered,
    target: Gathered,
    *,
    sep: int,
    special: Sequence[int],
    loss_on_context: bool,
) -> PromptRows:
    """Write all windows of a batch; `sep` is what ends each sentence in the store."""
    begins, lengths, row, context = _sentences(source, sep)
    target_begins, target_lengths, _, _ = _sentences(target, sep)
    is_first = np.diff(row, prepend=-1) != 0
    is_last = np.diff(row, append=-1) != 0
    follows_context = ~is_first & ~context & np.concatenate(([False], context[:-1]))
    every = np.ones_like(is_first)
    nothing = np.zeros_like(begins)
    # What a pair is made of: where each run of tokens begins in a pool of them, and its length.
    template = [
        (np.array(tokens, dtype=np.int32), nothing, where * len(tokens))
        for tokens, where in (
            (frame.opening, is_first),
            (frame.before_current, follows_context),
            (frame.before_source, every),
            (frame.before_target, every),
            (frame.after_pair, ~is_last),
        )
    ]
    runs = [
        *template[:3],
        (source.ids, begins, lengths),
        template[3],
        (target.ids, target_begins, target_lengths),
        template[4],
    ]
    pool = np.concatenate([tokens for tokens, *_ in runs])
    offsets = np.cumsum([0, *(len(tokens) for tokens, *_ in runs[:-1])])
    starts = np.stack([begin for _, begin, _ in runs], axis=1) + offsets
    widths = np.stack([width for *_, width in runs], axis=1)
    flat = widths.ravel()
    stops = np.cumsum(flat)
    ids = pool[np.repeat(starts.ravel() - (stops - flat), flat) + np.arange(stops[-1])]
    kind = np.repeat(np.tile(np.arange(len(runs)), len(row)), flat)
    in_context = np.repeat(context, widths.sum(axis=1))
    role = np.where(in_context, Role.CONTEXT, Role.CURRENT).astype(np.int8)
    role[np.isin(ids, special)] = Role.SPECIAL
    source_roles, target_roles = (
        np.where(kind == side, role, Role.SPECIAL).astype(np.int8) for side in (_SOURCE, _TARGET)
    )
    labels = np.full(len(ids), IGNORED, dtype=np.int64)
    said = np.flatnonzero((kind == _TARGET) & (loss_on_context | ~in_context))
    labels[said - 1] = ids[said]
    last = stops.reshape(widths.shape)[:, _TARGET] - 1
    labels[last[loss_on_context | ~context]] = frame.target_end
    rows = np.bincount(row, widths.sum(axis=1)).astype(np.int64)
    return PromptRows(ids, source_roles, target_roles, labels, rows)


def _sentences(side: Gathered, sep: int) -> tuple[Offsets, Offsets, Offsets, Bools]:
    """Return begin, length, row and whether it is context, of every sentence of a side."""
    ends = np.flatnonzero(side.ids == sep)
    begins = np.concatenate(([0], ends[:-1] + 1))
    row = np.searchsorted(np.cumsum(side.lengths), ends, side="right")
    return begins, ends - begins, row, side.is_context[ends]
