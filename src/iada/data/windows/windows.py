"""Windows: a part of a document and the context before it, on both sides.

    source         c1 <sep> c2 <sep> c3 <sep> x </s>
    decoder input  <s> c1 <sep> c2 <sep> c3 <sep> y
    labels         c1 <sep> c2 <sep> c3 <sep> y </s>      ignored up to the last <sep>

The current part, here x and y, may hold several sentences with `<sep>` between them. `spans` says
where windows begin and end, `conditions` what may stand in place of their context, `frame` what
opens, separates and closes sentences; here they become tokens. One window at a time is readable, a
whole batch at once is fast, and both are the same. Of a decoder-only model, which reads both sides
as one sequence (`prompt`), source and target ids are that sequence.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Ids, Offsets, Side, TokenStore
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.batch import IGNORED, Gathered, Role, Roles, Rows, Window, noise_key
from iada.data.windows.conditions import ABSENT, ContextNoise, with_noisy_context
from iada.data.windows.frame import Frame, frame_source, frame_target
from iada.data.windows.prompt import Prompt, PromptRows, write_prompt, write_prompts
from iada.data.windows.spans import Spans, current_parts, measure_sentences, with_context


class Windows:
    """All windows of a token store, as an indexable data set."""

    def __init__(
        self,
        store: TokenStore,
        config: WindowConfig,
        *,
        frame: Frame | None = None,
        documents: Offsets | None = None,
        noise: ContextNoise | None = None,
    ) -> None:
        """Cut windows.

        Args:
            store: the sentences.
            config: how to cut; its noise is not used.
            frame: what the model reads around and between sentences; Doc2Doc's by default.
            documents: (documents,) ascending numbers of the documents to cut; all by default.
            noise: what to replace in the context, in training; nothing by default.
        """
        if documents is None:
            documents = np.arange(len(store.document_starts) - 1)
        self.store = store
        self.config = config
        self.frame = Frame.stock(store.special) if frame is None else frame
        self.documents = documents
        self.is_rich: npt.NDArray[np.bool_] | None = None
        """(windows,): which windows are context-rich, as batches say too; None if unknown."""
        measure = measure_sentences(store, config, self.frame)
        parts = current_parts(store, config, documents, measure)
        self.context: Offsets | None = None
        """(windows, context): sentences before the current part, right-aligned, ABSENT where there
        are none; without noise they are simply the sentences before it."""
        if config.strategy == "multires":
            self.spans: Spans = parts
        elif noise is None:
            self.spans = with_context(store, parts, config, measure, self.frame)
        else:
            self.spans, self.context = with_noisy_context(
                store,
                parts,
                config,
                noise,
                documents=documents,
                measure=measure,
                frame=self.frame,
            )

    @property
    def sentences(self) -> Offsets:
        """(windows,): first current sentence of each window."""
        return self.spans.current

    def __len__(self) -> int:
        return len(self.spans)

    def lengths(self) -> Offsets:
        """(windows, 2): tokens of each window on the source and target side.

        Where both sides are one sequence, its length twice.
        """
        sides = (self.store.source, self.store.target)
        return np.stack([self.side_lengths(side) for side in sides], axis=1)

    def side_lengths(self, side: Side) -> Offsets:
        """(windows,): tokens of each window on one side of the store, the frame included."""
        if isinstance(self.frame, Prompt):
            sides = (self.store.source, self.store.target)
            text = np.sum([self.stored_lengths(one) for one in sides], axis=0)
            spans, frame = self.spans, self.frame
            alone = (spans.first == spans.current) * len(frame.before_current)
            pairs = spans.stop - spans.first
            return np.asarray(text + frame.per_pair * pairs + frame.per_window - alone)
        return self.stored_lengths(side) + self.frame_tokens(side)

    def stored_lengths(self, side: Side) -> Offsets:
        """(windows,): tokens of each window on one side, with one `<sep>` after each sentence."""
        _, lengths = self._segments(side, np.arange(len(self)))
        return np.asarray(lengths.sum(axis=1))

    def frame_tokens(self, side: Side) -> Offsets:
        """(windows,): tokens that the frame adds to `stored_lengths`."""
        source, target = self.frame.extra()
        spans = self.spans
        if side is self.store.target:
            first = spans.first if self.frame.target_context else spans.current
            return target[0] + target[1] * (spans.stop - first)
        end = spans.stop if spans.end is None else spans.end
        return source[0] + source[1] * (end - spans.first)

    def planned_lengths(self) -> Offsets:
        """(windows, 2): what no draw of a window exceeds on either side; what batches count."""
        return self.lengths()

    def loss_tokens(self) -> int:
        """Number of labels in the loss of all windows together, in the store's segmentation."""
        if self.config.loss_on == "all":
            return int(self.stored_lengths(self.store.target).sum())
        offsets = self.store.target.offsets
        return int((offsets[self.spans.stop] - offsets[self.spans.current]).sum())

    def __getitem__(self, key: tuple[int, int]) -> Window:
        """Return window number `key[1]` as drawn in epoch `key[0]`."""
        epoch, number = key
        frame, store = self.frame, self.store
        first, current, stop = (
            int(numbers[number])
            for numbers in (self.spans.first, self.spans.current, self.spans.stop)
        )
        end = stop if self.spans.end is None else int(self.spans.end[number])
        before = list(range(first, current))
        if self.context is not None:
            before = [s for s in self.context[number].tolist() if s != ABSENT]
        now, after = list(range(current, stop)), list(range(stop, end))
        source = _texts(store.source, [*before, *now, *after])
        target = _texts(store.target, [*(before if frame.target_context else ()), *now])
        if isinstance(frame, Prompt):
            written = write_prompt(
                frame,
                source,
                target,
                context=len(before),
                special=self._special,
                loss_on_context=self.config.loss_on == "all",
            )
            return Window(*_both_sides(written), current, epoch, stop - current)
        context = len(target) - len(now)
        labels = np.array(frame.labels(target), dtype=np.int64)
        # Context is counted without what opens the current part.
        learned = len(frame.prefix(target[:context])) - 1
        if self.config.loss_on == "current":
            labels[:learned] = IGNORED
        source_ids = np.array(frame.source(source), dtype=np.int32)
        opening = len(frame.source_begin)
        target_ids = np.array(frame.decoder_input(target), dtype=np.int32)
        begin = len(frame.source([*source[: len(before)], ()])) - len(frame.source_end)
        final = len(frame.source(source[: len(before) + len(now)]))
        source_roles = _roles(source_ids, begin, final, self._special)
        source_roles[opening - frame.prompt : opening] = Role.SPECIAL
        return Window(
            source_ids=source_ids,
            source_roles=source_roles,
            target_ids=target_ids,
            target_roles=_roles(target_ids, learned + 1, len(target_ids), self._special),
            labels=labels,
            sentence=current,
            epoch=epoch,
            sentences=stop - current,
            first_sentence=None if frame.target_context else len(before),
            number=number,
        )

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> Rows:
        """Return the windows of a batch at once; PyTorch's loader prefers this to `__getitem__`."""
        sep = self.store.special.sep
        drawn_source, drawn_target = self.draw(keys)
        if isinstance(self.frame, Prompt):
            written = write_prompts(
                self.frame,
                drawn_source,
                drawn_target,
                sep=sep,
                special=self._special,
                loss_on_context=self.config.loss_on == "all",
            )
            return self._prompt_rows(written, keys[0])
        source = frame_source(drawn_source, self.frame, sep)
        target = frame_target(drawn_target, self.frame, sep)
        source_roles = _roles_at_once(source.ids, source.is_context, self._special)
        opening = len(self.frame.source_begin)
        for place in range(opening - self.frame.prompt, opening):
            source_roles[np.cumsum(source.lengths) - source.lengths + place] = Role.SPECIAL
        labels = target.labels
        if self.config.loss_on == "current":
            labels[target.is_context] = IGNORED
        numbers = np.array([number for _, number in keys], dtype=np.int64)
        return Rows(
            source_ids=source.ids,
            source_roles=source_roles,
            source_lengths=source.lengths,
            target_ids=target.ids,
            # The input is one token behind: what stands where context ends belongs to the frame.
            target_roles=_roles_at_once(target.ids, target.is_context, self._special),
            labels=labels,
            target_lengths=target.lengths,
            noise_key=self._noise_key(keys[0]),
            first_sentence=self.first_sentence(numbers),
            numbers=numbers,
            is_rich=None if self.is_rich is None else self.is_rich[numbers],
        )

    def _prompt_rows(self, written: PromptRows, first: tuple[int, int]) -> Rows:
        ids, source_roles, _, target_roles, labels = _both_sides(written)
        return Rows(
            source_ids=ids,
            source_roles=source_roles,
            source_lengths=written.lengths,
            target_ids=ids,
            target_roles=target_roles,
            labels=labels,
            target_lengths=written.lengths,
            noise_key=self._noise_key(first),
        )

    def _noise_key(self, key: tuple[int, int]) -> tuple[int, ...]:
        """Return what identifies the draw of a batch, given its first window."""
        epoch, number = key
        current = int(self.spans.current[number])
        return noise_key(epoch, current, int(self.spans.stop[number]) - current)

    def first_sentence(self, numbers: Offsets) -> Offsets | None:
        """(rows,): source sentences before the first target one; None where none can be."""
        if self.frame.target_context:
            return None
        return self.spans.current[numbers] - self.spans.first[numbers]

    @property
    def _special(self) -> tuple[int, ...]:
        return tuple({*self.store.special.all, *self.frame.tokens})

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
            Two arrays (rows, segments): context first, then the current part, then what follows it
            where windows have that. A segment that a window lacks has length 0.
        """
        offsets = np.asarray(side.offsets)
        current, stop = self.spans.current[numbers], self.spans.stop[numbers]
        is_target = side is self.store.target
        if is_target and not self.frame.target_context:
            begin, end = current[:, None], stop[:, None]
        elif self.context is None:
            begin = np.stack([self.spans.first[numbers], current], axis=1)
            end = np.stack([current, stop], axis=1)
        else:
            context = self.context[numbers]
            begin = np.column_stack([context, current])
            end = np.column_stack([context + 1, stop])
        if not is_target and self.spans.end is not None:
            begin = np.column_stack([begin, stop])
            end = np.column_stack([end, self.spans.end[numbers]])
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
        has_following = side is not self.store.target and self.spans.end is not None
        is_context[:, -2 if has_following else -1] = False
        return Gathered(ids, lengths.sum(axis=1), np.repeat(is_context.ravel(), flat))


def _both_sides(written: PromptRows) -> tuple[Ids, Roles, Ids, Roles, Offsets]:
    """Return ids and roles of the source, then of the target, and labels; the ids are the same."""
    return written.ids, written.source_roles, written.ids, written.target_roles, written.labels


def _texts(side: Side, sentences: Sequence[int]) -> list[list[int]]:
    """Return the tokens of sentences, without the `<sep>` that ends each in the store."""
    return [side.ids[side.offsets[s] : side.offsets[s + 1] - 1].tolist() for s in sentences]


def _roles(ids: Ids, begin: int, end: int, special: tuple[int, ...]) -> Roles:
    roles = np.full(len(ids), Role.CONTEXT, dtype=np.int8)
    roles[begin:end] = Role.CURRENT
    roles[np.isin(ids, special)] = Role.SPECIAL
    return roles


def _roles_at_once(ids: Ids, is_context: npt.NDArray[np.bool_], special: tuple[int, ...]) -> Roles:
    """Like `_roles`, by look-up; every id above the special ones shares the last entry."""
    table = np.full((2, max(special) + 2), Role.CURRENT, dtype=np.int8)
    table[1] = Role.CONTEXT
    table[:, special] = Role.SPECIAL
    return table[is_context.view(np.int8), np.minimum(ids, table.shape[1] - 1)]


def describe_window(window: Window, subwords: SubwordEncoding) -> str:
    """Return the tokens of both sides with their roles, and which labels are in the loss."""
    source = [
        (str(position), piece, Role(role).name.lower())
        for position, (piece, role) in enumerate(
            zip(subwords.pieces(window.source_ids.tolist()), window.source_roles, strict=True)
        )
    ]
    decoder_input = subwords.pieces(window.target_ids.tolist())
    # Outside the loss a position would predict the token after it; the last one is always in it.
    following = [*window.target_ids[1:].tolist(), subwords.special.eos]
    labels = subwords.pieces(
        [
            label if label >= 0 else after
            for label, after in zip(window.labels.tolist(), following, strict=True)
        ]
    )
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
