"""One training run from a configuration: corpus, model, trainer, run folder."""

import logging
import math
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import PrinterCallback, TrainingArguments, set_seed

from iada.config.base import to_mapping, write_yaml
from iada.config.method import AugmentConfig
from iada.config.run import RunConfig
from iada.config.train import TrainConfig
from iada.data.prepared.store import Offsets
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.batch import Collator
from iada.data.windows.drawn import ResegmentedWindows
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.errors import RunError
from iada.method.perturbation import Vocabulary
from iada.models.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS, has_adapters, load_merged
from iada.models.pretrained import start_model
from iada.models.start import StartReport, load_weights
from iada.runs.corpus import Corpus, data_record, load_corpus, selected_windows
from iada.runs.environment import (
    environment,
    fastest_precision,
    find_changes,
    keep_freed_memory,
    on_cpu,
    process_state,
    refuse_sharding,
)
from iada.runs.folder import Checkpoint, RunFolder
from iada.storage import sha256, staged_folder
from iada.training.callbacks import MetricsFile, Progress, early_stopping
from iada.training.estimate import estimate_time, mismatches, trainable_parameters
from iada.training.trainer import IadaTrainer

logger = logging.getLogger(__name__)


def train(config: RunConfig, *, resume: bool = False, accept_changes: bool = False) -> RunFolder:
    """Train a model and leave it in the run folder.

    Runs unchanged under `accelerate launch` and `torchrun`; the run folder must then be on a file
    system that all processes share.

    Args:
        config: the run.
        resume: continue from the newest complete checkpoint of `config.output`; a run that has
            reached its end is left as it is.
        accept_changes: resume although the corpus, versions or hardware have changed.
    """
    refuse_sharding()
    folder = RunFolder(config.output)
    state = process_state()
    if resume:
        folder.check_resumable(config)
    # The main process writes, so it alone holds the folder.
    with folder.lock("training in") if state.is_main_process else nullcontext():
        if resume and state.is_main_process:
            folder.remove_leftovers()
        checkpoint = folder.last_checkpoint(say=state.is_main_process) if resume else None
        if resume and _is_finished(folder, config, checkpoint):
            if state.is_main_process:
                _finish(folder, checkpoint)
        else:
            _train(folder, config, checkpoint, resume=resume, accept_changes=accept_changes)
        state.wait_for_everyone()
    return folder


def _is_finished(folder: RunFolder, config: RunConfig, checkpoint: Checkpoint | None) -> bool:
    """Whether a run has reached its last update or was stopped early."""
    if checkpoint is None:
        # The checkpoints of a finished run may be removed to save space.
        return folder.has_model()
    patience = config.train.patience
    stopped = patience > 0 and checkpoint.fruitless_validations >= patience
    return stopped or checkpoint.update >= config.train.max_updates


def _finish(folder: RunFolder, checkpoint: Checkpoint | None) -> None:
    """Export the best model of a run that has reached its end, unless that was done."""
    if checkpoint is None:
        logger.info("%s is finished and has no checkpoints to continue from.", folder.path)
        return
    weights = [path / "model.safetensors" for path in (folder.model, checkpoint.best)]
    if folder.has_model() and weights[0].is_file() and sha256(weights[0]) == sha256(weights[1]):
        logger.info("%s is finished after %d updates.", folder.path, checkpoint.update)
        return
    logger.info(
        "%s is finished after %d updates; its model is that of %s.",
        folder.path,
        checkpoint.update,
        checkpoint.best.name,
    )
    with staged_folder(folder.model) as staging:
        for pattern in ("*config.json", "*model*.safetensors*"):
            for path in checkpoint.best.glob(pattern):
                shutil.copyfile(path, staging / path.name)
        load_subwords(folder.tokenizer).save(staging)
    logger.info("Model saved in %s", folder.model)


def _train(
    folder: RunFolder,
    config: RunConfig,
    checkpoint: Checkpoint | None,
    *,
    resume: bool,
    accept_changes: bool,
) -> None:
    """Train from the beginning or from a checkpoint, and export the best model."""
    state = process_state()
    _configure_torch(config.train)
    if state.is_main_process and not resume:
        # Said before the corpus is read.
        folder.check_unused()
        _check_start(config)
    with state.main_process_first():
        begun = resume or not state.is_main_process
        corpus = _open_corpus(folder, config, shared=begun)
        precision = _find_precision(folder, config, begun=begun)
        record = environment() | {
            "processes": state.num_processes,
            "precision": precision,
            "data": data_record(config, corpus),
        }
        if resume:
            changes = find_changes(folder.environment(), record)
            if changes and not accept_changes:
                raise RunError(_describe_changes(folder, changes))
        if state.is_main_process:
            if resume:
                _continue_run(folder, config, changes, checkpoint)
            else:
                _begin_run(folder, config, record, corpus.subwords)
    set_seed(config.seed)
    model = start_model(config, corpus.subwords, None if checkpoint is None else checkpoint.path)
    loaded = _load_start(config, model)
    chosen = replace(config, train=replace(config.train, precision=precision))
    trainer = make_trainer(chosen, corpus, model, folder)
    if state.is_main_process and not resume:
        for text in mismatches(config, corpus):
            logger.warning("%s", text)
    if loaded is not None:
        trainer.slow_parameters = (loaded.loaded, config.train.start_rate)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint.path))
    _report_held(corpus.train)
    if state.is_main_process:
        _save_model(folder, model, corpus.subwords, merge=config.train.lora.merge)


def _find_precision(
    folder: RunFolder, config: RunConfig, *, begun: bool
) -> Literal["fp32", "bf16"]:
    """Return the arithmetic of a run; if it is to be tried out, then once, by the main process.

    Args:
        folder: the run folder.
        config: the run.
        begun: whether the run folder says what was chosen.
    """
    if config.train.precision != "auto":
        return config.train.precision
    found = folder.environment().get("precision") if begun else None
    if found in ("fp32", "bf16"):
        return "bf16" if found == "bf16" else "fp32"
    chosen = fastest_precision(config.model.dim, config.model.feed_forward)
    logger.info("Training in %s, which is the faster way for this model here.", chosen)
    return chosen


def _check_start(config: RunConfig) -> None:
    """Refuse to start from a run whose weights cannot fit, before anything is written."""
    if config.train.start is None:
        return
    folder = RunFolder(config.train.start)
    found = folder.config().model
    folder.trained_model()
    if config.model.pretrained is not None or found.pretrained is not None:
        raise RunError(
            "`train.start` is for models built from scratch, but "
            f"{'this run' if found.pretrained is None else folder.path} has `model.pretrained`. "
            "Remove one of the two keys."
        )
    for name in ("dim", "feed_forward", "heads"):
        theirs, own = getattr(found, name), getattr(config.model, name)
        if theirs != own:
            raise RunError(
                f"{folder.path} has `model.{name}: {theirs}`, this run {own}, so its weights do "
                "not fit. Start from a run with the same sizes."
            )
    # The vocabulary, and with it the rows of the embedding matrix, is that of the other run.
    theirs, own = (to_mapping(one.subwords) for one in (folder.config(), config))
    if differing := [key for key in own if theirs[key] != own[key]]:
        key = differing[0]
        raise RunError(
            f"{folder.path} has `subwords.{key}: {theirs[key]}`, this run {own[key]}, so its "
            "weights belong to other pieces. Start from a run with the same `subwords`."
        )


def _load_start(config: RunConfig, model: nn.Module) -> StartReport | None:
    """Load the weights that a run starts from; a resumed run needs to know which they were."""
    if config.train.start is None:
        return None
    report = load_weights(model, RunFolder(config.train.start).trained_model())
    if process_state().is_main_process:
        logger.info("%s", report.describe(config.train.start))
    return report


def _configure_torch(config: TrainConfig) -> None:
    """Make the settings that hold for the whole process."""
    if config.threads:
        torch.set_num_threads(config.threads)
    if config.keep_memory:
        keep_freed_memory()
    if config.compile:
        # GNorm walks the graph of the original view before the update does, so the compiled
        # backward pass must not give its buffers away.
        torch._functorch.config.donated_buffer = False


def _open_corpus(folder: RunFolder, config: RunConfig, *, shared: bool) -> Corpus:
    """Load the corpus, with the encoding of the run folder if it is `shared` there."""
    known = shared and (folder.tokenizer / "tokenizer_config.json").is_file()
    encoding = load_subwords(folder.tokenizer) if known else _start_encoding(config)
    return load_corpus(config, encoding)


def _start_encoding(config: RunConfig) -> SubwordEncoding | None:
    """Return the encoding of the run to start from: the pieces must be those of the weights."""
    if config.train.start is None:
        return None
    return load_subwords(RunFolder(config.train.start).trained_model())


def _begin_run(
    folder: RunFolder, config: RunConfig, record: Mapping[str, object], subwords: SubwordEncoding
) -> None:
    # Before the configuration, with which the run counts as begun: the encoding is learned once.
    with staged_folder(folder.tokenizer) as staging:
        subwords.save(staging)
    folder.begin(config, record)


def _continue_run(
    folder: RunFolder, config: RunConfig, changes: Sequence[str], checkpoint: Checkpoint | None
) -> None:
    update = 0 if checkpoint is None else checkpoint.update
    if changes:
        logger.warning("Changed since %s began: %s.", folder.path, "; ".join(changes))
        folder.record_changes(changes, update=update)
    if checkpoint is not None:
        logger.info("Resuming %s from %s.", folder.path, checkpoint.path.name)
    write_yaml(folder.config_file, to_mapping(config))


def _describe_changes(folder: RunFolder, changes: Sequence[str]) -> str:
    return (
        f"{folder.path} would not continue as it began. {'; '.join(changes)}. Restore what has "
        "changed, or accept that the result may differ with `--accept_changes`."
    )


def make_trainer(config: RunConfig, corpus: Corpus, model: Any, folder: RunFolder) -> IadaTrainer:
    """Put the trainer of a run together."""
    state = process_state()

    def sampler(windows: Windows, chosen: Offsets | None = None) -> TokenBatchSampler:
        return TokenBatchSampler(
            windows.planned_lengths(),
            max_tokens=config.train.max_tokens,
            seed=config.seed,
            rank=state.process_index,
            processes=state.num_processes,
            chosen=chosen,
        )

    trainer = IadaTrainer(
        model,
        training_arguments(config, folder),
        augment=_fit_vocabulary(config.augment, corpus.subwords),
        train_dataset=corpus.train,
        train_sampler=sampler(corpus.train, selected_windows(config, corpus)),
        eval_dataset=corpus.dev,
        eval_sampler=sampler(corpus.dev),
        data_collator=Collator(corpus.subwords.special.pad),
        vocabulary=Vocabulary.of_tokenizer(corpus.subwords),
        label_smoothing=config.train.label_smoothing,
        rich_weight=config.train.rich.added_weight,
        computation=config.train.objective,
        callbacks=[
            MetricsFile(folder.metrics_file),
            Progress(config.method),
            early_stopping(config.train.patience, config.train.min_delta),
        ],
    )
    # It would print every log line to stdout; ours go to `metrics.jsonl` and to stderr.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _fit_vocabulary(augment: AugmentConfig, subwords: SubwordEncoding) -> AugmentConfig:
    """Drop words by a zero vector where a vocabulary has no mask token."""
    masks = augment.replaces and augment.replacement == "drop" and augment.drop == "mask"
    if not masks or subwords.special.mask is not None:
        return augment
    logger.info("The vocabulary has no mask token: a dropped word is read as a zero vector.")
    return replace(augment, drop="zero")


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
    """Say what a run would do and how long it would take, without doing or writing anything."""
    begun = time.perf_counter()
    _check_start(config)
    corpus = load_corpus(config, _start_encoding(config))
    estimate = estimate_time(config, corpus, to_start=time.perf_counter() - begun)
    sampler = TokenBatchSampler(
        corpus.train.planned_lengths(),
        max_tokens=config.train.max_tokens,
        seed=config.seed,
        chosen=selected_windows(config, corpus),
    )
    lengths = corpus.train.planned_lengths()
    padded = sum(
        len(batch) * int(side.max()) for batch in sampler.plan(0) for side in lengths[batch].T
    )
    updates = math.ceil(len(sampler) / config.train.accumulation)
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
        ("trainable parameters", f"{trainable_parameters(config, corpus):,}"),
        ("time (one process)", estimate.describe()),
        ("run folder", str(config.output)),
    ]
    lines = [f"{name:<33}{value}" for name, value in rows]
    return "\n".join([*lines, *(f"warning: {one}" for one in mismatches(config, corpus, estimate))])


def _report_held(windows: Windows) -> None:
    """Say how many windows this process could not segment as freely as they were drawn."""
    if isinstance(windows, ResegmentedWindows) and windows.held:
        logger.info(
            "%d of %d windows drawn with BPE-dropout came out longer than planned: their oldest "
            "sentences kept the plain segmentation.",
            windows.held,
            windows.drawn,
        )


def _save_adapters(model: Any, folder: Path, *, merge: bool) -> None:
    """Save adapters with the configuration of their model, or merged into it."""
    model.save_pretrained(folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    if merge:
        merged = load_merged(folder)
        for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
            (folder / name).unlink()
        merged.generation_config = model.generation_config
        merged.save_pretrained(folder)


def _save_model(folder: RunFolder, model: Any, subwords: SubwordEncoding, *, merge: bool) -> None:
    with staged_folder(folder.model) as staging, warnings.catch_warnings():
        # Sinusoidal positions are not saved; the library warns although it rebuilds them itself.
        warnings.simplefilter("ignore")
        if has_adapters(model):
            _save_adapters(model, staging, merge=merge)
        else:
            model.save_pretrained(staging)
        subwords.save(staging)
    logger.info("Model saved in %s", folder.model)
