"""One training run from a configuration: corpus, model, trainer, run folder."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import PrinterCallback, TrainerCallback, set_seed
from transformers.integrations.integration_utils import TensorBoardCallback

from iada.config.base import to_mapping, write_yaml
from iada.config.method import AugmentConfig
from iada.config.run import RunConfig, load_run_config
from iada.config.train import TrainConfig
from iada.data.prepared.store import Offsets
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.batch import Collator, round_up
from iada.data.windows.drawn import ResegmentedWindows
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.errors import RunError
from iada.method.perturbation import Vocabulary
from iada.models.bert import BertDocumentModel
from iada.models.pretrained import start_model
from iada.models.start import StartReport, load_weights
from iada.runs.corpus import Corpus, data_record, load_corpus, selected_windows
from iada.runs.environment import (
    environment,
    fastest_precision,
    find_changes,
    keep_freed_memory,
    process_state,
    refuse_sharding,
)
from iada.runs.folder import Checkpoint, RunFolder
from iada.storage import staged_folder
from iada.training.callbacks import MetricsFile, Progress, check_trackers, early_stopping
from iada.training.estimate import estimate_time, mismatches, trainable_parameters
from iada.training.finish import (
    choose_weights,
    copy_checkpoint,
    is_exported,
    load_checkpoint,
    save_model,
)
from iada.training.trainer import IadaTrainer, training_arguments
from iada.training.validation import TranslationValidator

logger = logging.getLogger(__name__)


def train(
    config: RunConfig | Path | str,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> RunFolder:
    """Train a model and leave it in the run folder.

    Runs unchanged under `accelerate launch` and `torchrun`; the run folder must then be on a file
    system that all processes share.

    Args:
        config: the run, or the YAML file that describes it.
        resume: continue from the newest complete checkpoint of `config.output`; a run that has
            reached its end is left as it is.
        accept_changes: resume although the corpus, versions or hardware have changed.
        callbacks: callbacks of Transformers' Trainer, which are called after our own.

    Returns:
        The run folder; its `path` is what `DocumentTranslator.load` takes.
    """
    if not isinstance(config, RunConfig):
        config = load_run_config(Path(config))
    refuse_sharding()
    check_trackers(config.train.report_to)
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
            _finish(folder, config, checkpoint)
        else:
            _train(
                folder,
                config,
                checkpoint,
                resume=resume,
                accept_changes=accept_changes,
                callbacks=callbacks,
            )
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


def _finish(folder: RunFolder, config: RunConfig, checkpoint: Checkpoint | None) -> None:
    """Leave the model of a run that has reached its end, unless that was done."""
    state = process_state()
    say = logger.info if state.is_main_process else logger.debug
    if checkpoint is None:
        say("%s is finished and has no checkpoints to continue from.", folder.path)
        return
    is_done = is_exported(folder, config, checkpoint)
    # All processes must have looked before one of them writes.
    state.wait_for_everyone()
    if is_done:
        say("%s is finished after %d updates.", folder.path, checkpoint.update)
        return
    if not config.train.average and not config.train.lora.rank:
        say(
            "%s is finished after %d updates; its model is that of %s.",
            folder.path,
            checkpoint.update,
            checkpoint.best.name,
        )
        if state.is_main_process:
            copy_checkpoint(folder, checkpoint)
        return
    say("%s is finished after %d updates; its model is made.", folder.path, checkpoint.update)
    if state.is_main_process:
        write_yaml(folder.config_file, to_mapping(config))
    _configure_torch(config.train)
    precision = _find_precision(folder, config, begun=True)
    config = replace(config, train=replace(config.train, precision=precision))
    corpus = _open_corpus(folder, config, shared=True)
    model = start_model(config, corpus.subwords, checkpoint.path)
    load_checkpoint(model, checkpoint.best)
    _leave_model(folder, config, corpus, make_trainer(config, corpus, model, folder))


def _leave_model(
    folder: RunFolder, config: RunConfig, corpus: Corpus, trainer: IadaTrainer
) -> None:
    """Save the model of a trainer that holds the best checkpoint, or an average that is better."""
    averaging = choose_weights(trainer, folder, config.train)
    if process_state().is_main_process:
        model, merge = trainer.augmented_objective.model, config.train.lora.merge
        save_model(folder, model, corpus.subwords, merge=merge, averaging=averaging)


def _train(
    folder: RunFolder,
    config: RunConfig,
    checkpoint: Checkpoint | None,
    *,
    resume: bool,
    accept_changes: bool,
    callbacks: Sequence[TrainerCallback],
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
    trainer = make_trainer(chosen, corpus, model, folder, callbacks)
    if state.is_main_process and not resume:
        for text in mismatches(config, corpus):
            logger.warning("%s", text)
    if loaded is not None:
        trainer.slow_parameters = (loaded.loaded, config.train.start_rate)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint.path))
    _report_held(corpus.train)
    _leave_model(folder, config, corpus, trainer)


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
    if isinstance(model, BertDocumentModel):
        # They came with the model, and learn beside a decoder that knows nothing.
        return StartReport(loaded=model.loaded_names(), new=(), unused=())
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


def make_trainer(
    config: RunConfig,
    corpus: Corpus,
    model: Any,
    folder: RunFolder,
    callbacks: Sequence[TrainerCallback] = (),
) -> IadaTrainer:
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
            length_multiple=config.train.length_multiple,
        )

    validator = None
    if config.train.metric != "nll":
        validator = TranslationValidator(config, corpus.subwords)
    trainer = IadaTrainer(
        model,
        training_arguments(config, folder),
        augment=_fit_vocabulary(config.augment, corpus.subwords),
        train_dataset=corpus.train,
        train_sampler=sampler(corpus.train, selected_windows(config, corpus)),
        eval_dataset=corpus.dev,
        eval_sampler=sampler(corpus.dev),
        data_collator=Collator(corpus.subwords.special.pad, config.train.length_multiple),
        vocabulary=Vocabulary.of_tokenizer(corpus.subwords),
        label_smoothing=config.train.label_smoothing,
        rich_weight=config.train.rich.added_weight,
        computation=config.train.objective,
        validator=validator,
        callbacks=[
            MetricsFile(folder.metrics_file),
            Progress(config.method),
            early_stopping(config.train.patience, config.train.min_delta),
            *callbacks,
        ],
    )
    # It would print every log line to stdout; ours go to `metrics.jsonl` and to stderr.
    trainer.remove_callback(PrinterCallback)
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
            callback.logging_dir = str(folder.path / "tensorboard")
    return trainer


def _fit_vocabulary(augment: AugmentConfig, subwords: SubwordEncoding) -> AugmentConfig:
    """Drop words by a zero vector where a vocabulary has no mask token."""
    masks = augment.replaces and augment.replacement == "drop" and augment.drop == "mask"
    if not masks or subwords.special.mask is not None:
        return augment
    logger.info("The vocabulary has no mask token: a dropped word is read as a zero vector.")
    return replace(augment, drop="zero")


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
        length_multiple=config.train.length_multiple,
    )
    lengths = corpus.train.planned_lengths()
    whole = round_up(lengths, config.train.length_multiple)
    padded = sum(
        len(batch) * int(side.max()) for batch in sampler.plan(0) for side in whole[batch].T
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
