"""A corpus that a trained run makes: real documents and as many translated ones."""

from dataclasses import dataclass, replace
from pathlib import Path

from iada.analysis.plans import Synthetic
from iada.config.data import DataConfig, Split
from iada.config.rules import require


@dataclass(frozen=True)
class Synthesis:
    """Double the training data by translating one of its sides."""

    run_folder: Path
    """The translator."""
    data: DataConfig
    """The real corpus."""
    folder: Path
    """Corpus folder to write."""
    kind: Synthetic

    @property
    def needs(self) -> tuple[Path, ...]:
        """The run must be trained before."""
        return (self.run_folder,)

    def is_finished(self) -> bool:
        """Whether the corpus is there; it appears as a whole."""
        return self.folder.is_dir()

    def run(self) -> None:
        """Translate, or go on translating, and write the corpus."""
        from iada.decoding.synthesis import synthesize

        synthesize(self.run_folder, self.data, self.folder, kind=self.kind)


def reversed_data(data: DataConfig) -> DataConfig:
    """Return the same corpus in the other direction, read from its text."""
    _check(data)
    return replace(
        data,
        source_language=data.target_language,
        target_language=data.source_language,
        prepared=None,
    )


def doubled_data(data: DataConfig, folder: Path) -> DataConfig:
    """Return what `Synthesis` makes of a corpus in another folder."""
    _check(data)
    return replace(data, folder=folder, prepared=None)


def _check(data: DataConfig) -> None:
    splits: tuple[Split, ...] = ("train", "dev", "test")
    for split in splits:
        form, name = data.file_format(split), getattr(data, split)
        rule = (
            "text, tsv or jsonl files with both languages named, so that they can be read in both "
            "directions and written again (experiment `bt_ft`)"
        )
        sides = "{side}" in name or form not in ("text", "tsv", "jsonl")
        require(not sides, f"data.{split}", rule, name)
