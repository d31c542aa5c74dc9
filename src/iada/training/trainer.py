"""`IadaTrainer`: a `transformers.Trainer` whose loss is the augmented objective.

The objective returns sums; this class divides them once by the number of loss tokens of the whole
update, across micro-batches and processes, so that accumulation and the number of processes do
not change the update. No Hugging Face model ever computes a loss here: their own average per
micro-batch is wrong under accumulation.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainingArguments

from iada.config.method import AugmentConfig
from iada.config.run import RunConfig
from iada.data.windows.batch import IGNORED, Batch
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.errors import DataError, ModelError, RunError
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective, Computation, Losses
from iada.method.perturbation import Replacement, Vocabulary
from iada.models.document import DocumentModel
from iada.models.start import slow_down
from iada.runs.environment import on_cpu, refuse_sharding
from iada.runs.folder import RunFolder
from iada.training.checkpoints import CheckpointTrainer


def inverse_square_root(update: int, warmup: int) -> float:
    """Return the share of the peak rate at an update, counted from 1.

    Rises linearly to 1 at the end of the warm-up, then falls with the square root of the update.
    """
    warmup = max(warmup, 1)
    return min(update / warmup, math.sqrt(warmup / update))


TERMS = ("original", "perturbed", "agreement")


class _FiniteCheck:
    """Notice losses and gradients that are not finite, without making the host wait.

    The verdict on an update is copied to the host while the next one is computed, and read after
    that. `read` gives the one that is still on its way.
    """

    def __init__(self) -> None:
        self._update = 0
        self._verdict: Tensor | None = None
        self._copied: Any = None

    def add(self, update: int, *values: Tensor) -> None:
        """Read the verdict on the update before, and send the one on this update on its way."""
        self.read()
        verdict = torch.stack([value.isfinite().all() for value in values]).all()
        self._update, self._verdict = update, verdict.to("cpu", non_blocking=verdict.is_cuda)
        if verdict.is_cuda:
            # Recorded after the copy: reading the host's memory earlier would read garbage.
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()

    def read(self) -> None:
        """Wait for the last verdict.

        Raises:
            RunError: a loss or gradient was not finite.
        """
        verdict, self._verdict = self._verdict, None
        if verdict is None:
            return
        if self._copied is not None:
            self._copied.synchronize()
        if not verdict.item():
            raise _diverged("loss or gradient", "not finite", self._update)


def _diverged(what: str, value: object, update: int) -> RunError:
    return RunError(
        f"The {what} is {value} after update {update}. Begin a new run with a lower "
        "`train.learning_rate` or a longer `train.warmup_updates`."
    )


class IadaTrainer(CheckpointTrainer):
    """Train any Hugging Face encoder-decoder on batches with roles."""

    # The loss is already divided by the tokens of the whole update.
    loss_is_scaled_for_ga = True

    def __init__(
        self,
        model: nn.Module,
        args: TrainingArguments,
        *,
        augment: AugmentConfig,
        train_dataset: Any,
        data_collator: Callable[[Any], Any],
        train_sampler: TokenBatchSampler | None = None,
        eval_dataset: Any = None,
        eval_sampler: TokenBatchSampler | None = None,
        replacement: Replacement | None = None,
        vocabulary: Vocabulary | None = None,
        processing_class: Any = None,
        label_smoothing: float = 0.1,
        rich_weight: float = 0.0,
        computation: Computation = "fused",
        validator: Callable[[nn.Module], Mapping[str, float]] | None = None,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        """Prepare training.

        Args:
            model: a Hugging Face encoder-decoder or causal language model.
            args: the Trainer's own settings.
            augment: how instances are perturbed and which losses are learned from.
            train_dataset: windows, or any data set whose items `data_collator` turns into a batch.
            data_collator: items to a `Batch`.
            train_sampler: batches by token budget; without it the Trainer's own sampler is used.
            eval_dataset: validation windows.
            eval_sampler: batches of `eval_dataset`.
            replacement: what replaces a token; by default made from `vocabulary`.
            vocabulary: what is known of the tokens; by default read from `processing_class`, or
                else from the model's configuration.
            processing_class: the model's tokenizer, which is saved with every checkpoint.
            label_smoothing: smoothing of the NLL in training.
            rich_weight: how much more the loss of context-rich windows counts; see
                `AugmentedObjective`.
            computation: how the losses are computed; see `AugmentedObjective`.
            validator: gives further validation scores of the model by name, such as BLEU.
            callbacks: further callbacks.
        """
        refuse_sharding()
        super().__init__(
            model=model,
            args=args,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            callbacks=[_EpochCallback(self, train_sampler), *callbacks],
        )
        self._check_devices()
        # Without this the Trainer does not count the loss tokens of the update.
        self.model_accepts_loss_kwargs = True
        self.train_sampler = train_sampler
        self.eval_sampler = eval_sampler
        self.validator = validator
        if vocabulary is None and processing_class is not None:
            vocabulary = Vocabulary.of_tokenizer(processing_class)
        if augment.importance_pass == "lagged":
            self.score_memory = _make_memory(augment, train_dataset, Path(str(args.output_dir)))
        self.augmented_objective = AugmentedObjective(
            model,
            augment,
            replacement=replacement,
            vocabulary=vocabulary,
            label_smoothing=label_smoothing,
            rich_weight=rich_weight,
            seed=args.seed,
            computation=computation,
            memory=self.score_memory,
        )
        self.slow_parameters: tuple[tuple[str, ...], float] = ((), 1.0)
        """Names of parameters, and the share of the learning rate that they learn at."""
        self._sums = torch.zeros(len(TERMS) + 1)
        self._finite = _FiniteCheck()
        self._has_checked_windows = False

    def _check_devices(self) -> None:
        if self.args.n_gpu > 1:
            raise ModelError(
                f"One process sees {self.args.n_gpu} GPUs. Start one process per GPU with "
                "`accelerate launch` or `torchrun`, or show this process a single one."
            )
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ModelError(
                "FSDP and DeepSpeed are not supported: training needs whole weights in every "
                "process. Leave `fsdp` and `deepspeed` out of the training arguments."
            )

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Make the optimizer; weights that come from another run get a smaller rate."""
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        names, rate = self.slow_parameters
        if names and rate != 1:
            slow_down(optimizer, self.augmented_objective.model, names, rate)
        return optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LambdaLR:
        """Follow the inverse square root schedule; its first update is number 1, not 0."""
        warmup = self.args.get_warmup_steps(num_training_steps)
        optimizer = optimizer or self.optimizer
        if optimizer is None:
            raise ValueError("the optimizer comes before its schedule")
        schedule = LambdaLR(optimizer, lambda done: inverse_square_root(done + 1, warmup))
        self.lr_scheduler = schedule
        return schedule

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Return the loss of a micro-batch as its share of the update's mean per token."""
        if not self._has_checked_windows:
            # Once: it makes the host wait for the device.
            self._has_checked_windows = True
            own = self.augmented_objective.model
            if isinstance(own, DocumentModel):
                own.check_windows(inputs)
        # Around the whole objective: the library has it around the model alone, where the losses
        # would multiply by the vocabulary in float32, and each view would convert the weights. Not
        # in fp16: the fused losses form gradients before anyone could scale them.
        with self.accelerator.autocast() if self.args.bf16 else nullcontext():
            losses = self.augmented_objective(inputs, update=self.state.global_step, module=model)
        count = losses.count if num_items_in_batch is None else num_items_in_batch
        self._add(losses)
        # DDP averages gradients over processes; the count already covers all of them.
        loss = losses.total * (self.accelerator.num_processes / count)
        return (loss, losses) if return_outputs else loss

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Tensor | None:
        """Count the loss tokens of an update on all processes.

        Releases of Transformers differ in which labels they count.
        """
        if not batch_samples or "labels" not in batch_samples[0]:
            return None
        counts = [batch["labels"].ne(IGNORED).sum() for batch in batch_samples]
        total = torch.stack(counts).sum().to(device)
        return cast(Tensor, self.accelerator.reduce(total, reduction="sum"))

    def _add(self, losses: Losses) -> None:
        """Add to the sums that the next log line reports, without waiting for the device."""
        zero = torch.zeros_like(losses.total.detach())
        terms = (getattr(losses, term) for term in TERMS)
        values = [zero if term is None else term for term in terms]
        update = torch.stack([*values, losses.count.to(zero.dtype)])
        self._sums = self._sums.to(update.device) + update

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[no-untyped-call]
        # The gradient is that of all processes, so that all of them stop at the same update. The
        # sums stay infinite or NaN once they are, until the next log line.
        self._finite.add(self.state.global_step + 1, torch.as_tensor(norm), self._sums)
        return norm

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the mean of each term per token, and their number, to a training log line."""
        if "loss" in logs:
            *terms, count = self.accelerator.reduce(self._sums, reduction="sum").tolist()
            self._sums = torch.zeros_like(self._sums)
            logs |= {name: value / count for name, value in zip(TERMS, terms, strict=True) if value}
            logs["loss_tokens"] = count
            if not math.isfinite(logs["loss"]):
                raise _diverged("loss", logs["loss"], self.state.global_step)
        self._finite.read()
        super().log(logs, start_time)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a checkpoint, unless the model in it would be useless."""
        self._finite.read()
        parameters = self.augmented_objective.model.parameters()
        if not torch.stack([weight.isfinite().all() for weight in parameters]).all():
            raise _diverged("model", "not finite", self.state.global_step)
        super()._save_checkpoint(model, trial)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return this process's batches of the plan."""
        if self.train_sampler is None:
            return super().get_train_dataloader()
        return self._loader(self.train_dataset, self.train_sampler)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Return this process's share of the validation batches."""
        if self.eval_sampler is None:
            return super().get_eval_dataloader(eval_dataset)
        return self._loader(self.eval_dataset, self.eval_sampler)

    def _loader(self, dataset: Any, sampler: TokenBatchSampler) -> DataLoader[Any]:
        # The sampler already knows its process, so `accelerate` must not shard it again. A
        # generator of its own keeps the loader from advancing the global one, which dropout uses.
        return DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=self.data_collator,
            pin_memory=self.args.dataloader_pin_memory and torch.cuda.is_available(),
            generator=torch.Generator(),
        )

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Validate, log the scores and tell the callbacks."""
        found = self.validate(eval_dataset)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    @torch.no_grad()
    def validate(self, eval_dataset: Any = None) -> dict[str, float]:
        """Return `nll`, the validation NLL per token, and what the validator adds.

        There is no dropout, no smoothing and no perturbation.
        """
        model = self.augmented_objective.model
        model.eval()
        parts = []
        for batch in self.get_eval_dataloader(eval_dataset):
            with self.compute_loss_context_manager():
                losses = self.augmented_objective(cast(Batch, self._prepare_inputs(batch)))
            # Brought to the host once, at the end, so that the device need not wait for it.
            parts.append(torch.stack([losses.total, losses.count]))
        sums = torch.stack(parts).to("cpu", torch.float64).sum(dim=0)
        total, count = self.accelerator.reduce(sums.to(self.args.device), reduction="sum").tolist()
        if not math.isfinite(total):
            raise _diverged("validation NLL", total / count, self.state.global_step)
        scores = {} if self.validator is None else self.validator(model)
        model.train()
        return {"nll": total / count, **scores}


def _make_memory(augment: AugmentConfig, windows: Any, folder: Path) -> ScoreMemory:
    """Make room for the importance of all windows, on the disk of the run."""
    if not isinstance(windows, Windows):
        raise DataError(
            f"`augment.importance_pass: lagged` keeps scores for every token of every window, but "
            f"the training data are {type(windows).__name__}, of which it does not know the "
            "lengths. Use `iada.DocumentWindows`, or set `importance_pass: reuse`."
        )
    return ScoreMemory(windows.lengths(), decay=augment.lagged_decay, folder=folder)


def training_arguments(config: RunConfig, folder: RunFolder) -> TrainingArguments:
    """Translate the run's settings into the Trainer's."""
    train = config.train
    # Renamed in Transformers 5.23, where the old name still works with a warning.
    renamed = "activation_checkpointing" in TrainingArguments.__dataclass_fields__
    name = "activation_checkpointing" if renamed else "gradient_checkpointing"
    # The reentrant form cannot serve `torch.autograd.grad`, which GNorm needs.
    recomputing: dict[str, Any] = {
        name: train.gradient_checkpointing,
        f"{name}_kwargs": {"use_reentrant": False},
    }
    return TrainingArguments(
        **recomputing,
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
        eval_strategy="steps",
        eval_steps=train.validate_every,
        save_strategy="steps",
        save_steps=train.validate_every,
        # The best one beside those that will be averaged.
        save_total_limit=max(train.keep_checkpoints, train.average + 1),
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{train.metric}",
        greater_is_better=train.metric != "nll",
        restore_callback_states_from_checkpoint=True,
        logging_steps=train.log_every,
        logging_first_step=True,
        # Our own check stops the run; the Trainer's would wait for the device at every step.
        logging_nan_inf_filter=False,
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=list(train.report_to) or "none",
        run_name=folder.path.name,
        disable_tqdm=True,
        log_level="error",
        log_level_replica="error",
        use_cpu=on_cpu(),
    )


class _EpochCallback(TrainerCallback):
    """Tell sampler and memory that an epoch begins: the Trainer only reaches `accelerate`'s own."""

    def __init__(self, trainer: CheckpointTrainer, sampler: TokenBatchSampler | None) -> None:
        self.trainer = trainer
        self.sampler = sampler

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.sampler is not None:
            self.sampler.set_epoch(int(state.epoch or 0))
        if self.trainer.score_memory is not None:
            # Other processes may have drawn the windows that this one draws now.
            self.trainer.score_memory.share(args.device)
