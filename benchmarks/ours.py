"""A process that makes training steps of this package, or of stock Transformers; see `protocol`."""

import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from protocol import serve
from transformers import MarianMTModel
from transformers.trainer_pt_utils import LabelSmoother
from workload import FIRST_ORDINARY_ID, Shape, synthetic_ids, synthetic_labels

from iada.config.method import AugmentConfig, augmentation
from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Batch, Role
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace
from iada.models.build import build_model
from iada.runs.environment import keep_freed_memory

SPECIAL = SpecialIds(pad=0, bos=1, eos=2, unk=3, sep=4, mask=5)
SMOOTHING = 0.1


def main(request: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = Shape(**request["shape"])
    model = our_model(shape, request.get("model"))
    if request["system"] == "iada":
        keep_freed_memory()
        serve(iada_step(model, shape, request))
    else:
        # Built by the library alone: ours changes how activations are stored.
        model = MarianMTModel(model.config).train()
        serve(stock_step(model, shape, request))


def our_model(shape: Shape, keys: dict[str, Any] | None = None) -> MarianMTModel:
    """Build a model of a shape; `keys` are those of an architecture."""
    config = ModelConfig(
        dim=shape.dim,
        feed_forward=shape.feed_forward,
        heads=shape.heads,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        dropout=shape.dropout,
        max_positions=max(512, shape.length),
        **(keys or {}),
    )
    model = build_model(config, vocabulary_size=shape.vocabulary, special=SPECIAL)
    return cast(MarianMTModel, model.train())


def autocast(request: dict[str, Any]) -> torch.autocast:
    """Multiply in bf16 if that is asked for, as the Trainer would."""
    return torch.autocast("cpu", torch.bfloat16, enabled=request.get("precision") == "bf16")


def stock_step(model: MarianMTModel, shape: Shape, request: dict[str, Any]) -> Callable[[], None]:
    """Train as the library does by default: its own loss, or its Trainer's label smoother."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    smoother = LabelSmoother(epsilon=SMOOTHING)
    ids, decoder_ids = synthetic_ids(shape, 1), synthetic_ids(shape, 2)
    mask, labels = torch.ones_like(ids), synthetic_labels(shape, "all")

    def step() -> None:
        inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
        with autocast(request):
            if request["system"] == "hf smoothed":
                loss = smoother(model(**inputs), labels)
            else:
                loss = model(**inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def iada_step(model: MarianMTModel, shape: Shape, request: dict[str, Any]) -> Callable[[], None]:
    """Train as `IadaTrainer` does, without its book-keeping."""
    objective, make_batch = objective_and_batch(model, shape, request)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with autocast(request):
            losses = objective(make_batch())
        (losses.total / losses.count).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def objective_and_batch(
    model: MarianMTModel, shape: Shape, request: dict[str, Any]
) -> tuple[AugmentedObjective, Callable[[], Batch]]:
    """Return the objective and a function that makes batches of ever new noise."""
    measure = request["measure"]
    config = augmentation("doc2doc")
    memory = None
    if measure != "none":
        config = AugmentConfig(
            measure=measure, importance_pass=request.get("importance_pass", "reuse")
        )
        memory = ScoreMemory(np.full((shape.windows, 2), shape.length))
    objective = AugmentedObjective(
        model,
        config,
        replacement=Replace(shape.vocabulary, range(FIRST_ORDINARY_ID)),
        label_smoothing=SMOOTHING,
        computation=request.get("computation", "fused"),
        memory=memory,
    )
    ids, decoder_ids = synthetic_ids(shape, 1), synthetic_ids(shape, 2)
    roles = torch.full(ids.shape, Role.CONTEXT, dtype=torch.int8)
    roles[:, shape.length - shape.current :] = Role.CURRENT
    labels = synthetic_labels(shape, request.get("loss_on", "all"))
    updates = itertools.count()

    def make_batch() -> Batch:
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "decoder_input_ids": decoder_ids,
            "labels": labels,
            "source_roles": roles,
            "target_roles": roles,
            "noise_key": (0, next(updates)),
            "numbers": np.arange(shape.windows),
        }

    if request.get("model"):
        return objective, lambda: window_batch(make_batch(), shape, ModelConfig(**request["model"]))
    return objective, make_batch


def window_batch(batch: Batch, shape: Shape, config: ModelConfig) -> Batch:
    """Cut the rows of a batch into sentences, as an architecture reads them."""
    ids, decoder_ids = batch["input_ids"].clone(), batch["decoder_input_ids"].clone()
    source_roles, target_roles = batch["source_roles"].clone(), batch["target_roles"].clone()
    starts = range(shape.length % shape.current, shape.length, shape.current)
    each = config.traits.ends == "each"
    ids[:, [start - 1 for start in starts]] = SPECIAL.eos if each else SPECIAL.sep
    ids[:, -1] = SPECIAL.eos
    decoder_ids[:, list(starts)] = SPECIAL.bos if each else SPECIAL.sep
    decoder_ids[:, 0] = SPECIAL.bos
    source_roles[ids < FIRST_ORDINARY_ID] = Role.SPECIAL
    target_roles[decoder_ids < FIRST_ORDINARY_ID] = Role.SPECIAL
    labels = batch["labels"]
    if not config.target_context:
        decoder_ids, target_roles, labels = (
            values[:, -shape.current :] for values in (decoder_ids, target_roles, labels)
        )
        batch["first_sentence"] = torch.full((shape.windows,), len(starts) - 1)
        decoder_ids[:, 0] = SPECIAL.bos
    return {
        **batch,
        "input_ids": ids,
        "decoder_input_ids": decoder_ids.contiguous(),
        "labels": labels.contiguous(),
        "source_roles": source_roles,
        "target_roles": target_roles.contiguous(),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
