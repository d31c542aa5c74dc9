"""The data of a run: documents read, segmented and cut into windows."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iada.config.run import RunConfig
from iada.data.documents import ParallelDocument
from iada.data.readers import read_parallel
from iada.data.store import TokenStore
from iada.data.subwords import Subwords, train_subwords
from iada.data.windows import Windows

Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class Corpus:
    """Windows of the training and validation documents."""

    subwords: Subwords
    train: Windows
    dev: Windows


def read_split(config: RunConfig, split: Split) -> list[ParallelDocument]:
    """Read the documents of a split."""
    source, target = config.data.paths(split)
    return read_parallel(source, target, boundaries=config.data.boundaries)


def load_corpus(config: RunConfig, subwords: Subwords | None = None) -> Corpus:
    """Read and encode the training and validation documents.

    Args:
        config: the run.
        subwords: an encoding to use; without one it is learned from the training documents.
    """
    train, dev = read_split(config, "train"), read_split(config, "dev")
    if subwords is None:
        sides = (side for document in train for side in (document.source, document.target))
        subwords = train_subwords(
            (sentence for side in sides for sentence in side.sentences),
            vocabulary_size=config.subwords.vocabulary_size,
        )
    return Corpus(
        subwords=subwords,
        train=Windows(TokenStore.build(train, subwords), config.windows),
        dev=Windows(TokenStore.build(dev, subwords), config.windows),
    )


def file_hashes(config: RunConfig) -> dict[str, str]:
    """Return the sha256 of every corpus file that exists, by file name."""
    splits: tuple[Split, ...] = ("train", "dev", "test")
    paths = [path for split in splits for path in config.data.paths(split)]
    return {path.name: _sha256(path) for path in paths if path.is_file()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
