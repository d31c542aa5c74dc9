"""One training run from a configuration: corpus, model, trainer, run folder."""

import logging
import math
import warnings
from typing import Any

import torch
from transformers import MarianMTModel, PrinterCallback, TrainingArguments, set_seed

from iada.config.base import to_mapping, write_yaml
from iada.config.run import RunConfig
from iada.data.tokens.subwords import Subwords
from iada.data.windows.batch import Collator
from iada.data.windows.drawn import ResegmentedWindows
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.perturbation import Drop, Replace, Replacement, Zero
from iada.models.build import build_model
from iada.runs.corpus import Corpus, data_record, load_corpus
from iada.runs.environment import environment, keep_freed_memory, on_cpu, process_state
from iada.runs.folder import RunFolder
from iada.storage import replace_folder
from iada.training.callbacks import MetricsFile, ProgressBar, early_stopping
from iada.training.trainer import IadaTrainer

logger = logging.getLogger(__name__)


def train(config: RunConfig, *, resume: bool = False) -> RunFolder:
    """Train a model and leave it in the run folder.

    Runs unchanged under `accelerate launch` and `torchrun`; the run folder must then be on a file
    system that all processes share.

    Args:
        config: the run.
        resume: continue from the newest complete checkpoint of `config.output`.
    """
    folder = RunFolder(config.output)
    state = process_state()
    if resume:
        folder.check_resumable(config)
    elif state.is_main_process:
        # Said before the corpus is read; the main process writes, so it alone may look.
        folder.check_unused()
    with state.main_process_first():
        corpus = _open_run(folder, config, resume=resume, main=state.is_main_process)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    if config.train.keep_memory:
        keep_freed_memory()
    if config.train.compile:
        # GNorm walks the graph of the original view before the update does, so the compiled
        # backward pass must not give its buffers away.
        torch._functorch.config.donated_buffer = False
    set_seed(config.seed)
    special = corpus.subwords.special
    model = build_model(
        config.model,
        vocabulary_size=len(corpus.subwords),
        special=special,
        context=config.windows.context,
    )
    trainer = make_trainer(config, corpus, model, folder)
    checkpoint = folder.last_checkpoint() if resume else None
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    _report_held(corpus.train)
    if state.is_main_process:
        _save_model(folder, model, corpus.subwords)
    state.wait_for_everyone()
    return folder


def _open_run(folder: RunFolder, config: RunConfig, *, resume: bool, main: bool) -> Corpus:
    """Load the corpus, and on the main process begin the folder; the encoding is learned once."""
    known = folder.tokenizer / "tokenizer.json"
    subwords = Subwords.load(folder.tokenizer) if known.is_file() and (resume or not main) else None
    corpus = load_corpus(config, subwords)
    if main:
        if resume:
            write_yaml(folder.config_file, to_mapping(config))
        else:
            folder.begin(config, environment() | {"data": data_record(config, corpus)})
        if subwords is None:
            corpus.subwords.save(folder.tokenizer)
    return corpus


def make_trainer(
    config: RunConfig, corpus: Corpus, model: MarianMTModel, folder: RunFolder
) -> IadaTrainer:
    """Put the trainer of a run together."""
    state = process_state()

    def sampler(windows: Any) -> TokenBatchSampler:
        return TokenBatchSampler(
            windows.planned_lengths(),
            max_tokens=config.train.max_tokens,
            seed=config.seed,
            rank=state.process_index,
            processes=state.num_processes,
        )

    trainer = IadaTrainer(
        model,
        training_arguments(config, folder),
        augment=config.augment,
        train_dataset=corpus.train,
        train_sampler=sampler(corpus.train),
        eval_dataset=corpus.dev,
        eval_sampler=sampler(corpus.dev),
        data_collator=Collator(corpus.subwords.special.pad),
        replacement=replacement(config, corpus.subwords),
        label_smoothing=config.train.label_smoothing,
        computation=config.train.objective,
        callbacks=[
            MetricsFile(folder.metrics_file),
            ProgressBar(config.method),
            *early_stopping(config.train.patience, config.train.min_delta),
        ],
    )
    # It would print every log line to stdout; ours go to `metrics.jsonl` and the progress bar.
    trainer.remove_callback(PrinterCallback)
    return trainer


def replacement(config: RunConfig, subwords: Subwords) -> Replacement:
    """Return Ω of a run: `<mask>`, zero, or any piece that is neither special nor a byte."""
    if config.augment.replacement == "drop":
        return Zero() if config.augment.drop == "zero" else Drop(subwords.special.mask)
    return Replace(len(subwords), subwords.reserved_ids)


def training_arguments(config: RunConfig, folder: RunFolder) -> TrainingArguments:
    """Translate the run's settings into the Trainer's."""
    train = config.train
    return TrainingArguments(
        output_dir=str(folder.checkpoints),
        seed=config.seed,
        max_steps=train.max_updates,
        gradient_accumulation_steps=train.accumulation,
        optim="adamw_torch_fused",
        learning_rate=train.learning_rate,
        adam_beta1=train.adam_beta1,
        adam_beta2=train.adam_beta2,
        weight_decay=train.weight_decay,
        max_grad_norm=train.clip_norm,
        warmup_steps=train.warmup_updates,
        bf16=train.precision == "bf16",
        torch_compile=train.compile,
        gradient_checkpointing=train.gradient_checkpointing,
        # The reentrant form cannot serve `torch.autograd.grad`, which GNorm needs.
        gradient_checkpointing_kwargs={"use_reentrant": False},
        eval_strategy="steps",
        eval_steps=train.validate_every,
        save_strategy="steps",
        save_steps=train.validate_every,
        save_total_limit=train.keep_checkpoints,
        load_best_model_at_end=True,
        metric_for_best_model="eval_nll",
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,
        logging_steps=train.log_every,
        logging_first_step=True,
        # Our own check stops the run; the Trainer's would wait for the device at every step.
        logging_nan_inf_filter=False,
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        label_names=["labels"],
        report_to="none",
        disable_tqdm=True,
        log_level="error",
        log_level_replica="error",
        use_cpu=on_cpu(),
    )


def describe_plan(config: RunConfig) -> str:
    """Say what a run would do, without doing or writing anything."""
    corpus = load_corpus(config)
    with torch.device("meta"):
        special = corpus.subwords.special
        model = build_model(
            config.model,
            vocabulary_size=len(corpus.subwords),
            special=special,
            context=config.windows.context,
        )
    sampler = TokenBatchSampler(
        corpus.train.planned_lengths(), max_tokens=config.train.max_tokens, seed=config.seed
    )
    lengths = corpus.train.planned_lengths()
    padded = sum(
        len(batch) * int(side.max()) for batch in sampler.plan(0) for side in lengths[batch].T
    )
    updates = math.ceil(len(sampler) / config.train.accumulation)
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    rows = [
        ("method", config.method),
        ("training documents", f"{len(corpus.train.documents):,}"),
        ("training windows", f"{len(corpus.train):,}"),
        ("loss tokens per epoch", f"{corpus.train.loss_tokens():,}"),
        ("longest window (tokens)", f"{int(lengths.max()):,}"),
        ("micro-batches per epoch", f"{len(sampler):,}"),
        ("padding", f"{1 - lengths.sum() / padded:.1%} of the tokens"),
        ("updates per epoch (one process)", f"{updates:,}"),
        ("updates at most", f"{config.train.max_updates:,}"),
        ("vocabulary", f"{len(corpus.subwords):,} pieces"),
        ("trainable parameters", f"{parameters:,}"),
        ("run folder", str(config.output)),
    ]
    return "\n".join(f"{name:<33}{value}" for name, value in rows)


def _report_held(windows: Windows) -> None:
    """Say how many windows this process could not segment as freely as they were drawn."""
    if isinstance(windows, ResegmentedWindows) and windows.held:
        logger.info(
            "%d of %d windows drawn with BPE-dropout came out longer than planned: their oldest "
            "sentences kept the plain segmentation.",
            windows.held,
            windows.drawn,
        )


def _save_model(folder: RunFolder, model: Any, subwords: Subwords) -> None:
    temporary = folder.path / ".model"
    with warnings.catch_warnings():
        # Sinusoidal positions are not saved; the library warns although it rebuilds them itself.
        warnings.simplefilter("ignore")
        model.save_pretrained(temporary)
    subwords.save(temporary)
    replace_folder(folder.model, temporary)
    logger.info("Model saved in %s", folder.model)
