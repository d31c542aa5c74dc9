"""Where the documents are, how they become subwords, and how windows are cut."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iada.config.rules import require

Boundaries = Literal["blank_line", "marker", "none"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Parallel documents: two aligned text files per split, one sentence per line."""

    folder: Path = Path("corpus")
    """Folder of the corpus files."""
    train: str = "train.{language}"
    """File name of the training split; `{language}` becomes the language code of each side."""
    dev: str = "dev.{language}"
    """File name of the validation split."""
    test: str = "test.{language}"
    """File name of the test split."""
    source_language: str = "en"
    """Language code of the source files."""
    target_language: str = "de"
    """Language code of the target files."""
    boundaries: Boundaries = "blank_line"
    """What parts documents: a blank line, a `<d>` line before each document, or nothing at all."""

    def __post_init__(self) -> None:
        for name in ("train", "dev", "test"):
            pattern = getattr(self, name)
            rule = "a file name that contains `{language}`"
            require("{language}" in pattern, f"data.{name}", rule, pattern)
        rule = "another language than `data.source_language`"
        same = self.source_language == self.target_language
        require(not same, "data.target_language", rule, self.target_language)

    def paths(self, split: Literal["train", "dev", "test"]) -> tuple[Path, Path]:
        """Return the source and target file of a split."""
        pattern: str = getattr(self, split)
        source = self.folder / pattern.replace("{language}", self.source_language)
        return source, self.folder / pattern.replace("{language}", self.target_language)


@dataclass(frozen=True, kw_only=True)
class SubwordConfig:
    """Joint byte-pair encoding of both languages."""

    vocabulary_size: int = 32000
    """Number of pieces, special tokens and byte fallbacks included."""

    def __post_init__(self) -> None:
        rule = "at least 300 (256 bytes, specials and an alphabet)"
        size = self.vocabulary_size
        require(size >= 300, "subwords.vocabulary_size", rule, size)


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """A window is the current sentence and up to `context` sentences before it, on both sides."""

    context: int = 3
    """Number of context sentences; 0 gives a sentence-level system."""
    loss_on: Literal["current", "all"] = "current"
    """Learn to predict the current sentence, or every sentence of the window."""
    max_length: int = 512
    """Longest window of either side in tokens; the oldest context is dropped first."""

    def __post_init__(self) -> None:
        require(self.context >= 0, "windows.context", "0 or more", self.context)
        require(self.max_length >= 4, "windows.max_length", "at least 4", self.max_length)
