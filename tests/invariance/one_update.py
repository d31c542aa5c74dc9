"""Make an update of a tiny model and save its weights; started by the test, once per process.

Usage: one_update.py OUTPUT ACCUMULATION METHOD PROJECTION COMPUTATION IMPORTANCE UPDATES

PROJECTION is tied or untied, COMPUTATION is fused or plain, IMPORTANCE is reuse or lagged.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from iada.config.data import WindowConfig
from iada.config.method import augmentation
from iada.config.model import ModelConfig
from iada.data.mini import generate_documents
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import train_subwords
from iada.data.windows.batch import Collator
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.perturbation import Replace
from iada.models.build import build_model
from iada.runs.environment import process_state
from iada.training.trainer import IadaTrainer


def main(
    output: Path,
    accumulation: int,
    method: str,
    projection: str,
    computation: str,
    importance: str,
    updates: int,
) -> None:
    """Train on the same four micro-batches, whatever the number of processes."""
    torch.set_num_threads(1)
    state = process_state()
    documents = [d.parallel() for d in generate_documents(6, seed=1, split="train")]
    sentences = [s for d in documents for side in (d.source, d.target) for s in side.sentences]
    subwords = train_subwords(sentences, vocabulary_size=500)
    windows = Windows(TokenStore.build(documents, subwords), WindowConfig())
    sampler = TokenBatchSampler(
        windows.lengths(),
        max_tokens=1400,
        seed=5,
        rank=state.process_index,
        processes=state.num_processes,
    )
    # A number that 1, 2 and 4 processes can share without splitting a batch.
    assert len(sampler) * state.num_processes == 4
    torch.manual_seed(3)
    config = ModelConfig(
        dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0
    )
    model = build_model(config, vocabulary_size=len(subwords), special=subwords.special).double()
    if projection == "untied":
        head = model.get_output_embeddings()
        head.weight = torch.nn.Parameter(0.1 * torch.randn_like(head.weight))
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
        augment=replace(
            augmentation(method),  # type: ignore[arg-type]
            importance_pass=importance,  # type: ignore[arg-type]
            # So that scores decide about tokens.
            alpha=1.0,
        ),
        train_dataset=windows,
        train_sampler=sampler,
        data_collator=Collator(subwords.special.pad),
        replacement=Replace(len(subwords), subwords.reserved_ids),
        computation=computation,  # type: ignore[arg-type]
    )
    trainer.train()
    if state.is_main_process:
        save_file({name: p.detach().clone() for name, p in model.named_parameters()}, str(output))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:7], int(sys.argv[7]))
