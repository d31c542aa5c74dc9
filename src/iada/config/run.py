"""Everything that describes one training run; `config.yaml` in the run folder is this, resolved."""

from dataclasses import dataclass, field
from pathlib import Path

from iada.config.augment import AugmentConfig
from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.evaluate import EvaluateConfig
from iada.config.methods import Method
from iada.config.model import ModelConfig
from iada.config.rules import require
from iada.config.train import TrainConfig


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
        rule = f"at most `model.max_positions` ({positions})"
        require(longest <= positions, "windows.max_length", rule, longest)
        rule = f"at least `windows.max_length` ({longest}), so that every window fits in a batch"
        require(self.train.max_tokens >= longest, "train.max_tokens", rule, self.train.max_tokens)
        require(0 <= self.seed < 2**32, "seed", "between 0 and 2**32 - 1", self.seed)
