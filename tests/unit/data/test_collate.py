"""Padding: right, with the fill that each tensor needs, and nothing else."""

import numpy as np
import torch

from iada.data.collate import Collator
from iada.data.roles import Role
from iada.data.windows import IGNORED, Window

S, X, Y = Role.SPECIAL, Role.CONTEXT, Role.CURRENT


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


def test_ids_are_long_and_roles_are_small() -> None:
    batch = Collator(9)([SHORT_SOURCE])
    for name in ("input_ids", "attention_mask", "decoder_input_ids", "labels"):
        assert batch[name].dtype == torch.int64  # type: ignore[literal-required]
    for name in ("source_roles", "target_roles"):
        assert batch[name].dtype == torch.int8  # type: ignore[literal-required]


def test_a_text_token_with_the_padding_id_is_still_attended_to() -> None:
    batch = Collator(10)([SHORT_SOURCE, SHORT_TARGET])
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_a_batch_is_known_by_its_epoch_and_first_sentence() -> None:
    assert Collator(0)([SHORT_TARGET, SHORT_SOURCE])["noise_key"] == (3, 8)
