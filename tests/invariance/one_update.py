"""Make one update of a tiny model and save its weights; started by the test, once per process.

Usage: one_update.py OUTPUT ACCUMULATION METHOD PROJECTION COMPUTATION [ARCHITECTURE ...]

METHOD is the name of one; with `-lagged` after it, three updates of lagged importance are made, and
with `-fresh` three of the other. PROJECTION is tied or untied, COMPUTATION is fused or plain. Of
architectures, if there are any, two updates each are made, and saved under their names in the
folder of OUTPUT, after its stem.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from iada.config.data import WindowConfig
from iada.config.method import AugmentConfig, augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.data.mini import generate_documents
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.windows.batch import Collator
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.perturbation import Replace
from iada.models.build import build_model
from iada.runs.corpus import run_frame
from iada.runs.environment import process_state
from iada.training.trainer import IadaTrainer

SIZE = ModelConfig(
    dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0
)
KEYS: dict[str, dict[str, Any]] = {
    "han": {"context_sides": "both", "stop_context": False},
    "san": {"stop_context": False},
    "docflat": {"gate": "hard", "far_context": 1},
}
"""Keys of architectures in which everything learns."""


def main(
    output: Path,
    accumulation: int,
    method: str,
    projection: str,
    computation: str,
    *architectures: str,
) -> None:
    """Train on the same four micro-batches, whatever the number of processes."""
    torch.set_num_threads(1)
    documents = [d.parallel() for d in generate_documents(6, seed=1, split="train")]
    sentences = [s for d in documents for side in (d.source, d.target) for s in side.sentences]
    subwords = train_subwords(sentences, vocabulary_size=500)
    store = TokenStore.build(documents, subwords)
    settings = accumulation, method, computation
    if not architectures:
        model, windows = start(SIZE, subwords, store)
        if projection == "untied":
            head = model.get_output_embeddings()
            head.weight = torch.nn.Parameter(0.1 * torch.randn_like(head.weight))
        several = method.endswith(("-lagged", "-fresh"))
        update(model, windows, subwords, output, *settings, updates=3 if several else 1)
    for name in architectures:
        config = replace(SIZE, architecture=name, **KEYS.get(name, {}))  # type: ignore[arg-type]
        model, windows = start(config, subwords, store)
        # The second update finds out whether the first has reached every parameter.
        path = output.with_name(f"{output.stem}-{name}.safetensors")
        update(model, windows, subwords, path, *settings, updates=2)


def start(config: ModelConfig, subwords: Subwords, store: TokenStore) -> tuple[Any, Windows]:
    """Build a model and cut its windows."""
    run = RunConfig(model=config, windows=WindowConfig())
    windows = Windows(store, run.windows, frame=run_frame(run, subwords))
    torch.manual_seed(3)
    model = build_model(config, vocabulary_size=len(subwords), special=subwords.special)
    return model.double(), windows


def update(
    model: Any,
    windows: Windows,
    subwords: Subwords,
    output: Path,
    accumulation: int,
    method: str,
    computation: str,
    *,
    updates: int,
) -> None:
    """Train, and save the weights in the main process."""
    state = process_state()
    lengths = windows.lengths()
    # Four batches, which 1, 2 and 4 processes can share without splitting one.
    max_tokens = next(
        budget
        for budget in range(1400, 3000, 20)
        if len(TokenBatchSampler(lengths, max_tokens=budget, seed=5)) == 4
    )
    sampler = TokenBatchSampler(
        lengths,
        max_tokens=max_tokens,
        seed=5,
        rank=state.process_index,
        processes=state.num_processes,
    )
    trainer = IadaTrainer(
        model,
        TrainingArguments(
            output_dir=str(output.parent / "checkpoints"),
            # Plain gradient descent: Adam would turn rounding of a zero gradient into a step.
            optim="sgd",
            learning_rate=1.0,
            max_grad_norm=0.0,
            max_steps=updates,
            gradient_accumulation_steps=accumulation,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
            label_names=["labels"],
            ddp_find_unused_parameters=False,
            use_cpu=True,
        ),
        augment=_augmentation(method),
        train_dataset=windows,
        train_sampler=sampler,
        data_collator=Collator(subwords.special.pad),
        replacement=Replace(len(subwords), subwords.reserved_ids),
        computation=computation,  # type: ignore[arg-type]
    )
    trainer.train()
    if state.is_main_process:
        save_file({name: p.detach().clone() for name, p in model.named_parameters()}, str(output))


def _augmentation(method: str) -> AugmentConfig:
    name, _, importance = method.partition("-")
    config = augmentation(name)  # type: ignore[arg-type]
    if not importance:
        return config
    lagged = importance == "lagged"
    # So that scores decide about tokens.
    return replace(config, alpha=1.0, importance_pass="lagged" if lagged else "reuse")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
