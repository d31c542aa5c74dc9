"""Where the documents are, how they become subwords, and how windows are cut."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iada.config.base import require

Boundaries = Literal["blank_line", "marker", "none"]
Split = Literal["train", "dev", "test"]
MAX_LINE_BYTES = 4_000_000
"""Longest line by default: far beyond any sentence, enough for a book on one line of JSON."""
FileFormat = Literal[
    "text",
    "tsv",
    "csv",
    "bars",
    "alternating",
    "jsonl",
    "parquet",
    "sgm",
    "tmx",
    "xliff",
    "po",
    "tags",
    "dialogue",
]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Parallel documents: two files per split, or one file that holds both sides."""

    folder: Path = Path("corpus")
    """Folder of the corpus files."""
    train: str = "train.{language}"
    """File name of the training split; `{language}` becomes the language code of each side and
    `{side}` becomes src and ref. A name without them is one file with both sides. `.gz` files are
    read as they are."""
    dev: str = "dev.{language}"
    """File name of the validation split."""
    test: str = "test.{language}"
    """File name of the test split."""
    source_language: str = "en"
    """Language code of the source side."""
    target_language: str = "de"
    """Language code of the target side."""
    format: Literal["auto", FileFormat] = "auto"
    """Format of the files; `auto` goes by their names (.tsv, .csv, .bars, .pairs, .jsonl, .parquet,
    .arrow, .sgm, .xml, .tmx, .xlf, .xliff, .po, .json, train.tags.*) and takes everything else as
    plain text."""
    boundaries: Boundaries = "blank_line"
    """What separates documents in plain text: a blank line, a `<d>` line before each document, or
    nothing."""
    document_column: str | None = None
    """Column of TSV and CSV, or field of JSON lines, with the document id; by default `document`.
    A number counts columns from 1 in a file without a header."""
    source_column: str | None = None
    """Column or field of the source side; by default `source` or the language code. Dots lead into
    JSON objects: `translation.en`."""
    target_column: str | None = None
    """Column or field of the target side; by default `target` or the language code."""
    split: Literal["none", "sentences"] = "none"
    """`sentences` splits each line of a text to translate into sentences and joins their
    translations again, for prose with a paragraph on each line (`pip install 'iada[language]'`).
    Parallel text stays as it is aligned."""
    max_line_bytes: int = MAX_LINE_BYTES
    """Longest line that is read; a longer one is refused before it is read whole."""
    reference: str | None = None
    """Translator to take from SGM and XML files with several references; by default the first."""
    hold_out: float = 0.0
    """Share of the documents of `data.train` that are kept out of training for validation, and as
    many again for testing; `data.dev` and `data.test` are then not read. Copies of a document stay
    together. At least one document each; 0 reads the files of all three splits."""
    subset: float = 1.0
    """Share of the training sentences to learn from, in whole documents; more than 0, at most 1.
    A smaller subset is part of every larger one with the same seed."""
    subset_seed: int = 1
    """Seed of the order in which documents join the subset."""
    prepared: Path | None = None
    """Folder that `iada prepare` writes and training reads; without one, the corpus is read and
    segmented in memory at the start of a run."""

    def __post_init__(self) -> None:
        require(0 < self.subset <= 1, "data.subset", "more than 0 and at most 1", self.subset)
        rule = "0 or more, and at most 0.3"
        require(0 <= self.hold_out <= 0.3, "data.hold_out", rule, self.hold_out)
        limit = self.max_line_bytes
        require(limit >= 1, "data.max_line_bytes", "1 or more", limit)
        rule = "another language than `data.source_language`"
        same = self.source_language == self.target_language
        require(not same, "data.target_language", rule, self.target_language)

    @property
    def columns(self) -> tuple[str | None, str | None, str | None]:
        """Columns or fields of document, source and target, if they are named."""
        return self.document_column, self.source_column, self.target_column

    def pattern(self, split: Split) -> str:
        """Return the file name of a split; that of the training split if others are held out."""
        name: str = self.train if self.hold_out else getattr(self, split)
        return name

    def paths(self, split: Split) -> tuple[Path, Path]:
        """Return the source and target file of a split; the same twice if it is one file."""
        pattern = self.pattern(split)
        source = pattern.replace("{side}", "src").replace("{language}", self.source_language)
        target = pattern.replace("{side}", "ref").replace("{language}", self.target_language)
        return self.folder / source, self.folder / target


@dataclass(frozen=True, kw_only=True)
class SubwordConfig:
    """Joint byte-pair encoding of both languages."""

    vocabulary_size: int = 32000
    """Number of pieces, special tokens and byte fallbacks included."""
    merges: int | None = None
    """Number of merges instead of `vocabulary_size`, as papers give it; characters come on top."""
    pretokenize: Literal["none", "moses"] = "none"
    """Moses tokenisation before the encoding, as in the paper, or none: raw text in and out."""
    tags: tuple[str, ...] = ()
    """Special tokens that may begin a source sentence, such as `<bt>` before synthetic text. They
    are never perturbed."""

    def __post_init__(self) -> None:
        for tag in self.tags:
            rule = "names in angle brackets that begin with a letter, each once"
            is_name = re.fullmatch("<[A-Za-z][A-Za-z0-9_]*>", tag) is not None
            require(is_name and self.tags.count(tag) == 1, "subwords.tags", rule, tag)
        rule = "at least 300 (256 bytes, specials and an alphabet)"
        size = self.vocabulary_size
        require(size >= 300, "subwords.vocabulary_size", rule, size)
        rule = "empty, or 1 or more"
        require(self.merges is None or self.merges > 0, "subwords.merges", rule, self.merges)


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """A window is a part of a document to translate and the sentences before it, on both sides."""

    strategy: Literal["sliding", "multires"] = "sliding"
    """How windows are cut: `sliding` windows of current sentences and their context, or `multires`,
    every document in 1, 2, 4, ... equal parts down to single sentences, without context."""
    context: int = 3
    """Number of context sentences; 0 gives a sentence-level system. Windows of `multires` have
    none; there it counts in translation alone."""
    stride: int = 1
    """Number of current sentences of a sliding window."""
    loss_on: Literal["current", "all"] = "current"
    """Learn to predict the current sentences, or every sentence of the window."""
    max_length: int = 512
    """Longest window of either side in tokens; the oldest context is dropped first."""
    on_long: Literal["refuse", "leave_out", "split"] = "refuse"
    """What to do with a sentence that is longer than `max_length` by itself: refuse the corpus,
    leave the sentence out of training and validation, or cut the pair into parts, at about the same
    places on both sides. Both are counted. Translation has `decode.on_long`."""
    noisy_context: int = 0
    """Number of context sentence pairs of a training window that are replaced by pairs of other
    documents; one true pair stays where there are at least two."""
    noise_seed: int = 1
    """Seed that chooses the replaced pairs and their replacements."""

    def __post_init__(self) -> None:
        require(self.context >= 0, "windows.context", "0 or more", self.context)
        require(self.stride >= 1, "windows.stride", "1 or more", self.stride)
        require(self.max_length >= 4, "windows.max_length", "at least 4", self.max_length)
        rule = "between 0 and `windows.context`"
        in_range = 0 <= self.noisy_context <= self.context
        require(in_range, "windows.noisy_context", rule, self.noisy_context)
        if self.strategy == "multires":
            rule = "{} with `windows.strategy: multires`"
            require(self.stride == 1, "windows.stride", rule.format(1), self.stride)
            noise = self.noisy_context
            require(noise == 0, "windows.noisy_context", rule.format(0), noise)
