"""Padding: right, with the fill that each tensor needs; a batch at once equals row by row."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from iada.config.data import WindowConfig
from iada.data.prepared.store import Side, TokenStore
from iada.data.windows.batch import IGNORED, Batch, Collator, Role, Window, to_device
from iada.data.windows.conditions import ContextNoise
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows

S, X, Y = Role.SPECIAL, Role.CONTEXT, Role.CURRENT
StoreOf = Callable[..., TokenStore]
Pair = tuple[Sequence[int], Sequence[int]]


def window(source: list[int], target: list[int], *, sentence: int, epoch: int = 0) -> Window:
    return Window(
        source_ids=np.array([*source, 2], dtype=np.int32),
        source_roles=np.array([Y] * len(source) + [S], dtype=np.int8),
        target_ids=np.array([1, *target], dtype=np.int32),
        target_roles=np.array([S] + [Y] * len(target), dtype=np.int8),
        labels=np.array([*target, 2], dtype=np.int64),
        sentence=sentence,
        epoch=epoch,
    )


SHORT_SOURCE = window([10], [20, 21], sentence=7, epoch=3)
SHORT_TARGET = window([11, 12, 13], [22], sentence=8, epoch=3)


def test_windows_are_padded_on_the_right() -> None:
    batch = Collator(9)([SHORT_SOURCE, SHORT_TARGET])
    assert batch["input_ids"].tolist() == [[10, 2, 9, 9], [11, 12, 13, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert batch["source_roles"].tolist() == [[Y, S, S, S], [Y, Y, Y, S]]
    assert batch["decoder_input_ids"].tolist() == [[1, 20, 21], [1, 22, 9]]
    assert batch["target_roles"].tolist() == [[S, Y, Y], [S, Y, S]]
    assert batch["labels"].tolist() == [[20, 21, 2], [22, 2, IGNORED]]


def test_both_sides_can_be_padded_to_a_multiple() -> None:
    batch = Collator(9, length_multiple=4)([SHORT_SOURCE, SHORT_TARGET])
    assert batch["input_ids"].tolist() == [[10, 2, 9, 9], [11, 12, 13, 2]]
    assert batch["decoder_input_ids"].tolist() == [[1, 20, 21, 9], [1, 22, 9, 9]]
    assert batch["labels"].tolist() == [[20, 21, 2, IGNORED], [22, 2, IGNORED, IGNORED]]
    wide = Collator(9, length_multiple=5)([SHORT_SOURCE, SHORT_TARGET])
    assert wide["input_ids"].shape == wide["target_roles"].shape == (2, 5)
    assert wide["attention_mask"].sum(dim=1).tolist() == [2, 4]
    assert wide["positions"].tolist() == [0, 1, 2, 5, 6]
    assert wide["loss_width"] == batch["loss_width"] == 3


def test_ids_are_long_and_roles_are_small() -> None:
    batch = Collator(9)([SHORT_SOURCE])
    for name in ("input_ids", "attention_mask", "decoder_input_ids", "labels"):
        assert batch[name].dtype == torch.int64
    for name in ("source_roles", "target_roles"):
        assert batch[name].dtype == torch.int8  # type: ignore[literal-required]


def test_roles_are_three_and_padding_has_the_first() -> None:
    assert [(role.name, role.value) for role in Role] == [
        ("SPECIAL", 0),
        ("CONTEXT", 1),
        ("CURRENT", 2),
    ]


def test_a_text_token_with_the_padding_id_is_still_attended_to() -> None:
    batch = Collator(10)([SHORT_SOURCE, SHORT_TARGET])
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_a_batch_is_known_by_its_epoch_and_first_sentence() -> None:
    assert Collator(0)([SHORT_TARGET, SHORT_SOURCE])["noise_key"] == (3, 8)


def test_tensors_move_to_a_device_and_the_rest_stays() -> None:
    batch = Collator(0)([SHORT_SOURCE])
    moved = to_device(batch, torch.device("meta"))
    assert moved.keys() == batch.keys()
    for name, value in moved.items():
        assert not isinstance(value, torch.Tensor) or value.is_meta, name
    assert moved["noise_key"] == batch["noise_key"]


def row_by_row(windows: Sequence[Window], pad_id: int) -> Batch:
    """Pad one row after the other, as plainly as possible."""

    def padded(rows: Sequence[npt.NDArray[np.integer]], fill: int) -> list[list[int]]:
        width = max(map(len, rows))
        return [row.tolist() + [fill] * (width - len(row)) for row in rows]

    source = [w.source_ids for w in windows]
    labels = torch.tensor(padded([w.labels for w in windows], IGNORED))
    learned = [k for k, label in enumerate(labels.reshape(-1).tolist()) if label != IGNORED]
    ones = [np.ones_like(ids) for ids in source]
    return {
        "input_ids": torch.tensor(padded(source, pad_id)),
        "attention_mask": torch.tensor(padded(ones, 0)),
        "decoder_input_ids": torch.tensor(padded([w.target_ids for w in windows], pad_id)),
        "labels": labels,
        "source_roles": torch.tensor(padded([w.source_roles for w in windows], S)).to(torch.int8),
        "target_roles": torch.tensor(padded([w.target_roles for w in windows], S)).to(torch.int8),
        "noise_key": windows[0].noise_key,
        "numbers": np.array([w.number for w in windows]),
        "positions": torch.tensor(learned, dtype=torch.int64),
        "loss_width": max(int((w.labels != IGNORED).sum()) for w in windows),
    }


def assert_same(found: Batch, expected: Batch) -> None:
    assert found.keys() == expected.keys()
    assert found["noise_key"] == expected["noise_key"]
    assert found["numbers"].tolist() == expected["numbers"].tolist()
    assert found["loss_width"] == expected["loss_width"]
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value, rtol=0, atol=0)  # type: ignore[literal-required]


# Ids below 6 are special wherever they stand.
tokens = st.lists(st.integers(0, 99), max_size=5)
full = st.tuples(*[st.lists(st.integers(6, 99), min_size=1, max_size=5)] * 2)
documents = st.lists(
    st.builds(
        lambda first, others: [first, *others],
        full,
        st.lists(st.tuples(tokens, tokens), max_size=6),
    ),
    min_size=2,
    max_size=4,
)
loss = st.sampled_from(["current", "all"])
limits = st.integers(6, 40)
configs = st.one_of(
    st.builds(
        WindowConfig,
        context=st.integers(1, 4),
        stride=st.integers(1, 3),
        max_length=limits,
        loss_on=loss,
    ),
    st.builds(WindowConfig, context=st.just(0), max_length=limits, loss_on=loss),
    st.builds(WindowConfig, strategy=st.just("multires"), max_length=limits, loss_on=loss),
)


@settings(max_examples=100, deadline=None)
@given(documents, configs, st.sampled_from([0, 1, 2]), st.sampled_from(["<i4", "<u2"]), st.data())
def test_a_batch_at_once_is_the_same_windows_row_by_row(
    store_of: StoreOf,
    content: list[list[Pair]],
    config: WindowConfig,
    replaced: int,
    dtype: str,
    data: st.DataObject,
) -> None:
    store = store_of(*content)
    for side in (store.source, store.target):
        object.__setattr__(side, "ids", side.ids.astype(dtype))
    noisy = 0 < replaced <= config.context and config.strategy == "sliding"
    windows = Windows(store, config, noise=ContextNoise(replaced, 1) if noisy else None)
    numbers = data.draw(st.lists(st.integers(0, len(windows) - 1), min_size=1, max_size=8))
    keys = [(3, number) for number in numbers]
    expected = row_by_row([windows[key] for key in keys], pad_id=7)
    assert_same(Collator(7)(windows.__getitems__(keys)), expected)
    assert_same(Collator(7)([windows[key] for key in keys]), expected)


@pytest.mark.parametrize("replaced", [0, 2])
def test_the_loader_collates_a_mapped_store_at_once(
    store_of: StoreOf, tmp_path: Path, replaced: int
) -> None:
    document: list[Pair] = [([10 + s] * (s + 1), [20 + s] * 3) for s in range(6)]
    built = store_of(document, document)
    sides = []
    for name, side in (("source", built.source), ("target", built.target)):
        side.ids.astype("<u2").tofile(tmp_path / f"{name}.ids")
        side.offsets.tofile(tmp_path / f"{name}.offsets")
        ids = np.memmap(tmp_path / f"{name}.ids", dtype="<u2", mode="r")
        sides.append(Side(ids, np.memmap(tmp_path / f"{name}.offsets", dtype="<i8", mode="r")))
    store = TokenStore(
        source=sides[0],
        target=sides[1],
        document_starts=built.document_starts,
        document_names=built.document_names,
        special=built.special,
    )
    windows = Windows(store, WindowConfig(), noise=ContextNoise(replaced, 1) if replaced else None)
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=60, seed=1)
    # To the loader's types a data set is an instance of its own class.
    dataset: Any = windows
    batches = list(DataLoader(dataset, batch_sampler=sampler, collate_fn=Collator(0)))
    assert len(batches) == len(sampler) > 2
    for batch, keys in zip(batches, sampler, strict=True):
        assert_same(batch, row_by_row([windows[key] for key in keys], pad_id=0))
