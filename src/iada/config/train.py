"""Optimisation, validation and stopping."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from iada.config.base import require


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters (LoRA) beside the frozen weights of a pre-trained model."""

    rank: int = 0
    """Rank of the adapters; 0 trains the weights themselves."""
    alpha: float = 32.0
    """The output of an adapter is scaled by alpha divided by rank."""
    dropout: float = 0.05
    """Dropout on the input of adapters."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers that get an adapter, such as `q_proj`; by default every one but
    the output projection."""
    merge: bool = False
    """Whether the finished model has the adapters merged into its weights. Otherwise adapters are
    saved alone, and loaded with the model that they belong to."""

    def __post_init__(self) -> None:
        require(self.rank >= 0, "train.lora.rank", "0 or more", self.rank)
        require(self.alpha > 0, "train.lora.alpha", "above 0", self.alpha)
        in_range = 0 <= self.dropout < 1
        require(in_range, "train.lora.dropout", "at least 0 and below 1", self.dropout)


@dataclass(frozen=True, kw_only=True)
class RichConfig:
    """Context-rich windows: those whose current part has a token that context helps the most."""

    scores: Path | None = None
    """P-CXMI of the training text as a context-aware model sees it, `cxmi.train.jsonl`, which
    `iada evaluate RUN --cxmi --cxmi_split train` writes; without it all windows are alike."""
    share: float = 0.2
    """Share of the training windows that count as context-rich, more than 0 and at most 1."""
    use: Literal["weight", "select"] = "weight"
    """Weight the loss of context-rich windows, or learn from them alone."""
    weight: float = 2.0
    """With `use: weight`, their loss is multiplied by 1 plus this number."""

    def __post_init__(self) -> None:
        rule = "more than 0 and at most 1"
        require(0 < self.share <= 1, "train.rich.share", rule, self.share)
        require(self.weight >= 0, "train.rich.weight", "0 or more", self.weight)

    @property
    def added_weight(self) -> float:
        """What is added to the weight 1 of the loss of context-rich windows."""
        weighted = self.scores is not None and self.use == "weight"
        return self.weight if weighted else 0.0


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The paper's recipe: Adam, inverse square root schedule, 32K tokens per update."""

    start: Path | None = None
    """Run folder whose model's weights and encoding the run starts from; what its model lacks stays
    random. By default everything is random."""
    start_rate: float = 0.2
    """Learning rate of the weights loaded by `start`, and of those of a BERT that is the encoder,
    as a share of that of the new ones."""
    learning_rate: float = 5e-4
    """Peak learning rate, reached at the end of the warm-up."""
    warmup_updates: int = 4000
    """Updates of linear warm-up; afterwards the rate falls with the square root of the update."""
    adam_beta1: float = 0.9
    """Decay of Adam's first moment."""
    adam_beta2: float = 0.98
    """Decay of Adam's second moment."""
    weight_decay: float = 1e-4
    """Decoupled weight decay."""
    clip_norm: float = 0.1
    """Largest gradient norm; 0 switches clipping off."""
    label_smoothing: float = 0.1
    """Probability mass that smoothing spreads over the vocabulary, in [0, 1)."""
    max_tokens: int = 4096
    """Tokens of a micro-batch, padding included: rows times the longer of the two sides."""
    length_multiple: int = 1
    """Pad both sides of a batch to a multiple of this many tokens, which must divide
    `windows.max_length`. Batches then come in few shapes, as CUDA graphs and compiled models like
    it; losses are the same, but the noise of the perturbation is drawn for other shapes."""
    accumulation: int = 8
    """Micro-batches per update and process."""
    max_updates: int = 100_000
    """Stop after this many updates."""
    validate_every: int = 1000
    """Updates between two validations; each one also saves a checkpoint."""
    metric: Literal["nll", "s_bleu", "d_bleu"] = "nll"
    """What the best checkpoint and early stopping go by: the validation NLL, or BLEU of the
    validation documents, translated with the model's own translations as context."""
    validation_beam: int = 1
    """Beam size of translations during training, for a `metric` of translations."""
    patience: int = 10
    """Stop after this many validations without a better `metric`; 0 never stops early."""
    min_delta: float = 0.0
    """By how much the `metric` must be better to count as better."""
    keep_checkpoints: int = 2
    """Number of checkpoints to keep; the newest and the best one are kept in any case."""
    average: int = 0
    """At the end, average the weights of this many checkpoints, the last ones of the run, which are
    kept for it; 0 averages nothing."""
    average_keep: Literal["better", "always"] = "better"
    """Whether the finished model is the average only where its `metric` is better than that of the
    best checkpoint, or in any case."""
    log_every: int = 50
    """Updates between two lines of `metrics.jsonl` and, without a terminal, of progress."""
    report_to: tuple[str, ...] = ()
    """Trackers that get every log line too, by their names in Transformers: `tensorboard`, `wandb`,
    `mlflow`, `trackio` and others. `metrics.jsonl` is written in any case."""
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """Arithmetic of the matrix products; weights, statistics, losses, importance and the optimiser
    stay in fp32. `auto` tries both for a moment and takes bf16 where it is clearly faster; a
    resumed run keeps what was chosen. Only fp32 gives the same numbers on every machine."""
    objective: Literal["fused", "plain"] = "fused"
    """Losses chunk by chunk with the output projection, or from whole matrices of logits. The
    result is the same; the second needs more memory and time, and serves as a reference."""
    compile: bool = False
    """Compile the model with `torch.compile`. Pays on a GPU, not on a CPU."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass to save memory."""
    lora: LoraConfig = field(default_factory=LoraConfig)
    """Adapters to train in place of the weights, for pre-trained models."""
    rich: RichConfig = field(default_factory=RichConfig)
    """Windows that depend on their context, to be selected or to count more."""
    threads: int = 0
    """CPU threads of each process; 0 leaves PyTorch's choice."""
    keep_memory: bool = True
    """Keep freed memory for the next update instead of returning it to the system (glibc only)."""

    def __post_init__(self) -> None:
        positive = ("learning_rate", "max_tokens", "accumulation", "max_updates", "validate_every")
        counts = ("log_every", "keep_checkpoints", "validation_beam", "length_multiple")
        for name in (*positive, *counts):
            value = getattr(self, name)
            require(value > 0, f"train.{name}", "above 0", value)
        for name in ("warmup_updates", "weight_decay", "clip_norm", "patience", "min_delta"):
            value = getattr(self, name)
            require(value >= 0, f"train.{name}", "0 or more", value)
        rule = "0, or at least 2"
        require(self.average == 0 or self.average >= 2, "train.average", rule, self.average)
        rule = "above 0 and at most 1"
        require(0 < self.start_rate <= 1, "train.start_rate", rule, self.start_rate)
        for name in ("adam_beta1", "adam_beta2", "label_smoothing"):
            value = getattr(self, name)
            require(0 <= value < 1, f"train.{name}", "at least 0 and below 1", value)
        require(self.threads >= 0, "train.threads", "0 or more", self.threads)
