"""Everything that describes one training run; `config.yaml` in the run folder is this, resolved.

`mini_run` is the run that suits the embedded mini corpus: minutes on two CPU cores.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from iada.config.base import from_mapping, read_yaml, require, to_mapping
from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.evaluate import EvaluateConfig
from iada.config.method import METHOD_NAMES, AugmentConfig, Method, augmentation
from iada.config.model import ModelConfig, check_windows
from iada.config.train import TrainConfig
from iada.errors import ConfigError, did_you_mean

MiniSize = Literal["scarce", "plentiful"]
MiniVersion = Literal[1, 2]
"""How much training text the mini corpus has."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run."""

    output: Path = Path("runs/iada")
    """Run folder: configuration, metrics, checkpoints, model, translations and scores."""
    method: Method = "iada_replace_gnorm"
    """Named system. It sets the defaults of `augment`; keys given under `augment` win."""
    seed: int = 1
    """Seed of weights, batches, dropout and perturbation."""
    data: DataConfig = field(default_factory=DataConfig)
    """The corpus."""
    subwords: SubwordConfig = field(default_factory=SubwordConfig)
    """Byte-pair encoding."""
    windows: WindowConfig = field(default_factory=WindowConfig)
    """Context windows."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The Transformer."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """Augmentation and its losses."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Optimisation."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    """Translation after training."""
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    """Scores of the translation."""

    def __post_init__(self) -> None:
        longest, positions = self.windows.max_length, self.model.max_positions
        if self.model.pretrained is None:
            rule = f"at most `model.max_positions` ({positions})"
            require(longest <= positions, "windows.max_length", rule, longest)
            rank = self.train.lora.rank
            require(rank == 0, "train.lora.rank", "0 without `model.pretrained`", rank)
        else:
            self._check_pretrained()
        rule = f"at least `windows.max_length` ({longest}), so that every window fits in a batch"
        require(self.train.max_tokens >= longest, "train.max_tokens", rule, self.train.max_tokens)
        rule = f"a divisor of `windows.max_length` ({longest}), so that no window grows beyond it"
        multiple = self.train.length_multiple
        require(longest % multiple == 0, "train.length_multiple", rule, multiple)
        require(0 <= self.seed < 2**32, "seed", "between 0 and 2**32 - 1", self.seed)
        check_windows(self.model, self.windows)
        rule = "refuse or leave_out with `train.rich.scores`, whose sentences are those of the text"
        counted = self.train.rich.scores is None or self.windows.on_long != "split"
        require(counted, "windows.on_long", rule, self.windows.on_long)
        if self.model.frozen_context:
            self._check_frozen()
        if self.model.architecture == "causal":
            self._refuse_redrawn_text(
                "`model.architecture: causal`, whose windows are one sequence"
            )

    def _refuse_redrawn_text(self, reason: str) -> None:
        """Refuse augmentations that segment or encipher the text anew."""
        dropout, keys = self.augment.bpe_dropout, self.augment.cipher_keys
        require(dropout == 0, "augment.bpe_dropout", f"0 with {reason}", dropout)
        require(not keys, "augment.cipher_keys", f"empty with {reason}", list(keys))

    def _check_frozen(self) -> None:
        """Refuse frozen context that nobody has trained, or that would see what is dropped."""
        start, drop = self.train.start, self.augment.drop
        rule = "a run folder with `model.frozen_context`: its encoder gives the context states"
        require(start is not None, "train.start", rule, start)
        drops = self.augment.perturbs and self.augment.replacement == "drop"
        rule = "mask with `model.frozen_context`, whose encoder reads tokens"
        require(not drops or drop == "mask", "augment.drop", rule, drop)

    def _check_pretrained(self) -> None:
        """Refuse what needs an encoding of our own."""
        reason = "`model.pretrained`, whose tokenizer is used as it is"
        self._refuse_redrawn_text(reason)
        if self.train.start is not None:
            raise ConfigError(
                "`train.start` and `model.pretrained` both say what a run starts from. To go on "
                f"from a pre-trained run, set `model.pretrained: {self.train.start / 'model'}`."
            )
        if self.model.architecture != "doc2doc":
            rank, rule = self.train.lora.rank, "0 with new attentions, which adapters would freeze"
            require(rank == 0, "train.lora.rank", rule, rank)
        tags, moses = self.subwords.tags, self.subwords.pretokenize
        require(not tags, "subwords.tags", f"empty with {reason}", tags)
        require(moses == "none", "subwords.pretokenize", f"none with {reason}", moses)


def mini_run(
    method: Method,
    *,
    corpus: Path,
    output: Path,
    version: MiniVersion = 2,
    size: MiniSize = "scarce",
    seed: int = 1,
    context: int = 3,
    updates: int | None = None,
) -> RunConfig:
    """Return a run of a method on the mini corpus.

    Sizes and the optimiser differ from the paper's recipe, and every sentence of a window is
    learned, not the current one alone: four times the labels in an update, without which the few
    updates leave every system that perturbs its input half trained.

    Args:
        method: the named system.
        corpus: folder of the mini corpus.
        output: run folder.
        version: of the corpus. Sentences of version 1 mostly recur, so that plentiful text of it is
            learned in fewer updates.
        size: setting of the corpus. In the scarce one a system overfits, so that the best
            checkpoint is found by validation and the run stops early.
        seed: seed of the run.
        context: context sentences; 0 gives a sentence-level system.
        updates: number of updates, if not the usual one.
    """
    is_scarce = size == "scarce"
    usual = 1500 if is_scarce else 2400 if version == 2 else 1000
    train = TrainConfig(
        learning_rate=3e-3,
        warmup_updates=200,
        clip_norm=1.0,
        label_smoothing=0.0,
        max_tokens=512 if is_scarce else 1024,
        accumulation=1,
        max_updates=usual,
        validate_every=100 if is_scarce else 200,
        patience=4 if is_scarce else 0,
        keep_checkpoints=1,
        log_every=25,
        threads=1,
    )
    if updates is not None:
        every = min(train.validate_every, updates)
        train = replace(train, max_updates=updates, validate_every=every)
    return RunConfig(
        output=output,
        method=method,
        seed=seed,
        data=DataConfig(folder=corpus),
        subwords=SubwordConfig(vocabulary_size=1400),
        windows=WindowConfig(context=context, loss_on="all", max_length=128),
        model=ModelConfig(
            dim=96,
            feed_forward=192,
            heads=4,
            encoder_layers=2,
            decoder_layers=2,
            dropout=0.1 if is_scarce else 0.05,
            max_positions=256,
        ),
        augment=augmentation(method),
        train=train,
    )


def load_run_config(path: Path | None, *, method: str | None = None) -> RunConfig:
    """Read a run configuration, with the named method's values as defaults of `augment`.

    Args:
        path: YAML file; `None` stands for an empty one.
        method: name of a method; wins over the file's `method` key.

    Raises:
        ConfigError: with every finding of the file.
    """
    mapping = {} if path is None else read_yaml(path)
    where = "configuration" if path is None else str(path)
    if method is not None:
        _check_method(method, mapping, where)
        mapping["method"] = method
    name = mapping.get("method", RunConfig.method)
    section = mapping.get("augment", {})
    # Anything else is left as found, for `from_mapping` to refuse with the other findings.
    if isinstance(section, Mapping) and name in METHOD_NAMES:
        mapping["augment"] = to_mapping(augmentation(cast(Method, name))) | dict(section)
    return from_mapping(RunConfig, mapping, where=where)


def _check_method(method: str, mapping: Mapping[str, Any], where: str) -> None:
    if method not in METHOD_NAMES:
        suggestion = did_you_mean(method, METHOD_NAMES)
        raise ConfigError(f"There is no method `{method}`. {suggestion}")
    section = mapping.get("augment")
    names = {field.name for field in dataclasses.fields(AugmentConfig)}
    complete = isinstance(section, Mapping) and names <= section.keys()
    # A run folder's `config.yaml` gives every key. Each of them would win over the new method, and
    # the run would carry the name of a method that it does not follow.
    if complete and method != mapping.get("method", RunConfig.method):
        raise ConfigError(
            f"{where}: gives every key of `augment`, so the method `{method}` would change nothing."
            " Remove the `augment` section, or start from the recipe."
        )
