"""Windows: a part of a document and the context before it, on both sides.

    source         c1 <sep> c2 <sep> c3 <sep> x </s>
    decoder input  <s> c1 <sep> c2 <sep> c3 <sep> y
    labels         c1 <sep> c2 <sep> c3 <sep> y </s>      ignored up to the last <sep>

The current part, here x and y, may hold several sentences with `<sep>` between them. `spans` says
where windows begin and end, `noise` what may stand in place of their context; here they become
tokens. One window at a time is readable, a whole batch at once is fast, and both are the same.

A window as a table that people can read.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Ids, Offsets, Side, TokenStore
from iada.data.tokens.subwords import Subwords
from iada.data.windows.batch import IGNORED, Gathered, Role, Roles, Rows, Window, noise_key
from iada.data.windows.conditions import ABSENT, ContextNoise, with_noisy_context
from iada.data.windows.spans import Spans, current_parts, with_context


class Windows:
    """All windows of a token store, as an indexable data set."""

    def __init__(
        self,
        store: TokenStore,
        config: WindowConfig,
        *,
        documents: Offsets | None = None,
        noise: ContextNoise | None = None,
    ) -> None:
        """Cut windows.

        Args:
            store: the sentences.
            config: how to cut; its noise is not used.
            documents: (documents,) ascending numbers of the documents to cut; all by default.
            noise: what to replace in the context, in training; nothing by default.
        """
        if documents is None:
            documents = np.arange(len(store.document_starts) - 1)
        self.store = store
        self.config = config
        self.documents = documents
        parts = current_parts(store, config, documents)
        self.context: Offsets | None = None
        """(windows, context): sentences before the current part, right-aligned, ABSENT where there
        are none; without noise they are simply the sentences before it."""
        if config.strategy == "multires":
            self.spans: Spans = parts
        elif noise is None:
            self.spans = with_context(store, parts, config)
        else:
            self.spans, self.context = with_noisy_context(
                store, parts, config, noise, documents=documents
            )

    @property
    def sentences(self) -> Offsets:
        """(windows,): first current sentence of each window."""
        return self.spans.current

    def __len__(self) -> int:
        return len(self.spans)

    def lengths(self) -> Offsets:
        """(windows, 2): tokens of each window on the source and target side."""
        sides = (self.store.source, self.store.target)
        return np.stack([self.side_lengths(side) for side in sides], axis=1)

    def side_lengths(self, side: Side) -> Offsets:
        """(windows,): tokens of each window on one side of the store."""
        _, lengths = self._segments(side, np.arange(len(self)))
        return np.asarray(lengths.sum(axis=1))

    def planned_lengths(self) -> Offsets:
        """(windows, 2): what no draw of a window exceeds on either side; what batches count."""
        return self.lengths()

    def loss_tokens(self) -> int:
        """Number of labels in the loss of all windows together, in the store's segmentation."""
        if self.config.loss_on == "all":
            return int(self.lengths()[:, 1].sum())
        offsets = self.store.target.offsets
        return int((offsets[self.spans.stop] - offsets[self.spans.current]).sum())

    def __getitem__(self, key: tuple[int, int]) -> Window:
        """Return window number `key[1]` as drawn in epoch `key[0]`."""
        epoch, number = key
        first, current, stop = (
            int(numbers[number])
            for numbers in (self.spans.first, self.spans.current, self.spans.stop)
        )
        context = list(range(first, current))
        if self.context is not None:
            context = [s for s in self.context[number].tolist() if s != ABSENT]
        special = self.store.special
        source, source_current = _joined(self.store.source, context, range(current, stop))
        target, target_current = _joined(self.store.target, context, range(current, stop))
        labels = target.astype(np.int64)
        source[-1] = labels[-1] = special.eos
        if self.config.loss_on == "current":
            labels[:target_current] = IGNORED
        decoder_input = np.concatenate(([special.bos], target[:-1])).astype(np.int32)
        return Window(
            source_ids=source,
            source_roles=_roles(source, source_current, special.all),
            target_ids=decoder_input,
            target_roles=_roles(decoder_input, target_current + 1, special.all),
            labels=labels,
            sentence=current,
            epoch=epoch,
            sentences=stop - current,
        )

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> Rows:
        """Return the windows of a batch at once; PyTorch's loader prefers this to `__getitem__`."""
        special = self.store.special
        drawn_source, drawn_target = self.draw(keys)
        source, source_lengths, is_context = drawn_source
        last = np.cumsum(source_lengths) - 1
        source[last] = special.eos
        source_roles = _roles_at_once(source, is_context, special.all)

        target, target_lengths, is_context = drawn_target
        last = np.cumsum(target_lengths) - 1
        labels = target.astype(np.int64)
        labels[last] = special.eos
        if self.config.loss_on == "current":
            labels[is_context] = IGNORED
        decoder_input = _one_later(target, special.bos, last)
        # The input is one token behind: what stands where context ends is `<sep>` or `<s>`.
        target_roles = _roles_at_once(decoder_input, is_context, special.all)
        epoch, number = keys[0]
        current = int(self.spans.current[number])
        return Rows(
            source_ids=source,
            source_roles=source_roles,
            source_lengths=source_lengths,
            target_ids=decoder_input,
            target_roles=target_roles,
            labels=labels,
            target_lengths=target_lengths,
            noise_key=noise_key(epoch, current, int(self.spans.stop[number]) - current),
        )

    def draw(self, keys: Sequence[tuple[int, int]]) -> tuple[Gathered, Gathered]:
        """Return source and target of windows, given by epoch and number, as the store has them."""
        numbers = np.array([number for _, number in keys], dtype=np.int64)
        return self.gather(self.store.source, numbers), self.gather(self.store.target, numbers)

    def _segments(self, side: Side, numbers: Offsets) -> tuple[Offsets, Offsets]:
        """Return begin and length of the runs of tokens that windows are made of.

        Args:
            side: the language.
            numbers: (rows,) which windows.

        Returns:
            Two arrays (rows, segments): context first, the current part last. A segment that a
            window lacks has length 0.
        """
        offsets = np.asarray(side.offsets)
        current, stop = self.spans.current[numbers], self.spans.stop[numbers]
        if self.context is None:
            begin = np.stack([self.spans.first[numbers], current], axis=1)
            end = np.stack([current, stop], axis=1)
        else:
            context = self.context[numbers]
            begin = np.column_stack([context, current])
            end = np.column_stack([context + 1, stop])
        # An absent sentence, -1, would begin at the last offset and end at the first.
        return offsets[begin], np.maximum(offsets[end] - offsets[begin], 0)

    def gather(self, side: Side, numbers: Offsets) -> Gathered:
        """Return the tokens of windows, given by number, on one side."""
        begin, lengths = self._segments(side, numbers)
        flat = lengths.ravel()
        total = int(flat.sum())
        # A token's place in the store, less its place in the batch, is constant in a segment.
        shift = begin.ravel() - (np.cumsum(flat) - flat)
        places = np.repeat(shift, flat) + np.arange(total)
        ids = np.asarray(side.ids)[places].astype(np.int32)
        is_context = np.ones(lengths.shape, dtype=np.bool_)
        is_context[:, -1] = False
        return Gathered(ids, lengths.sum(axis=1), np.repeat(is_context.ravel(), flat))


def _joined(side: Side, context: Sequence[int], current: Sequence[int]) -> tuple[Ids, int]:
    """Return a copy of the window's tokens and where the current part begins in it."""
    pieces = [side.ids[side.offsets[s] : side.offsets[s + 1]] for s in (*context, *current)]
    begin = sum(len(piece) for piece in pieces[: len(context)])
    return np.concatenate(pieces).astype(np.int32), begin


def _roles(ids: Ids, current: int, special: tuple[int, ...]) -> Roles:
    roles = np.full(len(ids), Role.CONTEXT, dtype=np.int8)
    roles[current:] = Role.CURRENT
    roles[np.isin(ids, special)] = Role.SPECIAL
    return roles


def _roles_at_once(ids: Ids, is_context: npt.NDArray[np.bool_], special: tuple[int, ...]) -> Roles:
    """Like `_roles`, by look-up; every id above the special ones shares the last entry."""
    table = np.full((2, max(special) + 2), Role.CURRENT, dtype=np.int8)
    table[1] = Role.CONTEXT
    table[:, special] = Role.SPECIAL
    return table[is_context.view(np.int8), np.minimum(ids, table.shape[1] - 1)]


def _one_later(ids: Ids, first: int, last: Offsets) -> Ids:
    """Move the tokens of every row by one place; each begins with `first` and loses its last.

    Args:
        ids: (tokens,) the rows, end to end.
        first: what each row begins with.
        last: (rows,) where each row ends.
    """
    moved = np.empty_like(ids)
    moved[0] = first
    moved[1:] = ids[:-1]
    moved[last[:-1] + 1] = first
    return moved


def describe_window(window: Window, subwords: Subwords) -> str:
    """Return the tokens of both sides with their roles, and which labels are in the loss."""
    source = [
        (str(position), piece, Role(role).name.lower())
        for position, (piece, role) in enumerate(
            zip(subwords.pieces(window.source_ids.tolist()), window.source_roles, strict=True)
        )
    ]
    decoder_input = subwords.pieces(window.target_ids.tolist())
    # Each position predicts the token after it; the last one the end, which is no input.
    labels = [*decoder_input[1:], subwords.pieces([subwords.special.eos])[0]]
    target = [
        (str(position), piece, Role(role).name.lower(), label, "yes" if counted else "no")
        for position, (piece, role, label, counted) in enumerate(
            zip(decoder_input, window.target_roles, labels, window.labels >= 0, strict=True)
        )
    ]
    return "\n".join(
        [
            f"window of sentence {window.sentence}",
            _table(("", "source", "role"), source),
            "",
            _table(("", "decoder input", "role", "label", "in the loss"), target),
        ]
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
