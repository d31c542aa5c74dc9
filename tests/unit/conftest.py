"""Tiny models of five architectures, batches with roles, and a disk that tells what reaches it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from iada.data.windows.batch import Batch, Role

PAD, BOS, EOS, SEP, MASK = 0, 1, 2, 4, 5
VOCABULARY = 40

_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
    "dropout": 0.1,
    "init_std": 0.3,
}


def _tiny(architecture: str) -> Any:
    if architecture == "marian":
        return MarianMTModel(MarianConfig(**_SIZES, decoder_vocab_size=VOCABULARY))
    if architecture == "bart":
        return BartForConditionalGeneration(BartConfig(**_SIZES))
    if architecture == "mbart":
        return MBartForConditionalGeneration(MBartConfig(**_SIZES))
    if architecture == "m2m100":
        return M2M100ForConditionalGeneration(M2M100Config(**_SIZES))
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=16,
            d_kv=8,
            d_ff=24,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=2,
            dropout_rate=0.1,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            initializer_factor=1.0,
        )
    )


@pytest.fixture
def tiny_model() -> Callable[..., Any]:
    """Return a function that builds a seeded tiny model of an architecture, in float64."""

    def build(architecture: str = "marian", *, dropout: bool = True, seed: int = 0) -> Any:
        torch.manual_seed(seed)
        model = _tiny(architecture).double()
        if not dropout:
            for module in model.modules():
                for name in ("dropout", "attention_dropout", "activation_dropout"):
                    if isinstance(getattr(module, name, None), float):
                        setattr(module, name, 0.0)
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
        return model.train()

    return build


def batch_of(rows: list[tuple[list[list[int]], list[list[int]]]], *, key: int = 0) -> Batch:
    """Lay out windows of (source sentences, target sentences), the last one current."""
    width = [max(sum(map(len, row[side])) + len(row[side]) for row in rows) for side in (0, 1)]
    shape = [(len(rows), w) for w in width]
    ids, decoder_ids = torch.full(shape[0], PAD), torch.full(shape[1], PAD)
    labels = torch.full(shape[1], -100)
    source_roles = torch.zeros(shape[0], dtype=torch.int8)
    target_roles = torch.zeros(shape[1], dtype=torch.int8)
    for number, (source, target) in enumerate(rows):
        flat, roles = _flatten(source)
        ids[number, : len(flat)] = torch.tensor([*flat[:-1], EOS])
        source_roles[number, : len(flat)] = torch.tensor(roles, dtype=torch.int8)
        flat, roles = _flatten(target)
        decoder_ids[number, : len(flat)] = torch.tensor([BOS, *flat[:-1]])
        target_roles[number, 1 : len(flat)] = torch.tensor(roles[:-1], dtype=torch.int8)
        current = len(flat) - len(target[-1]) - 1
        labels[number, current : len(flat)] = torch.tensor([*target[-1], EOS])
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "decoder_input_ids": decoder_ids,
        "labels": labels,
        "source_roles": source_roles,
        "target_roles": target_roles,
        "noise_key": (0, key),
    }


def _flatten(sentences: list[list[int]]) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    roles: list[int] = []
    for sentence in sentences:
        ids += [*sentence, SEP]
        role = Role.CURRENT if sentence is sentences[-1] else Role.CONTEXT
        roles += [*([int(role)] * len(sentence)), int(Role.SPECIAL)]
    return ids, roles


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Return `batch_of`."""
    return batch_of


ROWS: list[tuple[list[list[int]], list[list[int]]]] = [
    ([[10, 11, 12], [13, 14]], [[20, 21], [22, 23, 24]]),
    ([[15, 16, 17, 15]], [[25, 26, 25]]),
    ([[18], [19, 10], [30, 31, 32]], [[27, 28], [29], [33, 34]]),
]


@pytest.fixture
def batch() -> Batch:
    """Three windows: one context sentence, none, and two; lengths differ."""
    return batch_of(ROWS)


@pytest.fixture
def single_batches() -> list[Batch]:
    """The windows of `batch`, each alone and without padding."""
    return [batch_of([row]) for row in ROWS]


@pytest.fixture
def disk_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reached the disk, in order: `sync NAME` and `rename FROM TO`."""
    events: list[str] = []
    fsync, rename = os.fsync, os.replace

    def logged_fsync(handle: int) -> None:
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        fsync(handle)

    def logged_replace(source: Path, target: Path) -> None:
        events.append(f"rename {Path(source).name} {Path(target).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    return events
