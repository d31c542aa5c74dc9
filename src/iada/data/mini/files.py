"""The mini corpus on disk.

A corpus folder appears whole or not at all, and is never overwritten. Its manifest holds the
settings and the hash of every file, so equal manifests mean equal corpora.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from iada.data.mini.contrastive import generate_contrastive
from iada.data.mini.documents import GRAMMAR_VERSION, generate_documents
from iada.data.mini.sentences import TaggedDocument, Token
from iada.errors import ConfigError, RunError

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class MiniConfig:
    """How much mini corpus to write."""

    seed: int = 1
    """Another seed gives another corpus of the same kind."""
    train_documents: int = 540
    """Training documents, of about twelve sentences each. Multiples of 18 balance the topics, and
    multiples of 3 the genders."""
    dev_documents: int = 36
    """Development documents."""
    test_documents: int = 36
    """Test documents."""
    contrastive_per_cell: int = 15
    """Contrastive items for each pronoun class and antecedent distance."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "seed" and value < 1:
                raise ConfigError(f"`corpus.{name}` must be at least 1, but is {value}.")


def write_mini_corpus(folder: Path, config: MiniConfig) -> Path:
    """Write the corpus into a new folder, or keep the folder if it holds just this corpus.

    Args:
        folder: created with its parents; appears only when complete.
        config: size and seed.

    Returns:
        The folder.

    Raises:
        RunError: the path exists and holds something else.
    """
    files = corpus_files(config)
    manifest = files[MANIFEST]
    if os.path.lexists(folder):
        _check_same(folder, manifest)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            path = staging / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        # A temporary folder is private; the corpus gets the permissions of a usual folder.
        shutil.copymode(staging / "contrastive", staging)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return folder


def corpus_files(config: MiniConfig) -> dict[str, bytes]:
    """Generate the content of every file by its path in the folder, the manifest last."""
    texts: dict[str, str] = {}
    for split, count in (
        ("train", config.train_documents),
        ("dev", config.dev_documents),
        ("test", config.test_documents),
    ):
        texts.update(_split_files(split, generate_documents(count, seed=config.seed, split=split)))
    items, contexts = generate_contrastive(config.contrastive_per_cell, seed=config.seed)
    texts["contrastive.json"] = json.dumps(items, ensure_ascii=False, indent=1) + "\n"
    for context in contexts:
        pair = context.parallel()
        texts[f"contrastive/{context.name}.en"] = "".join(f"{s}\n" for s in pair.source.sentences)
        texts[f"contrastive/{context.name}.de"] = "".join(f"{s}\n" for s in pair.target.sentences)
    files = {name: text.encode() for name, text in texts.items()}
    manifest = {
        "grammar_version": GRAMMAR_VERSION,
        "config": asdict(config),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    return files


def _split_files(split: str, documents: Sequence[TaggedDocument]) -> dict[str, str]:
    pairs = [document.parallel() for document in documents]
    return {
        f"{split}.en": _lines([pair.source.sentences for pair in pairs]),
        f"{split}.de": _lines([pair.target.sentences for pair in pairs]),
        f"{split}.en.pos": _lines([[_tagged(s.source) for s in d.sentences] for d in documents]),
        f"{split}.de.pos": _lines([[_tagged(s.target) for s in d.sentences] for d in documents]),
    }


def _lines(documents: Sequence[Sequence[str]]) -> str:
    """Write one sentence per line with one blank line between documents."""
    return "\n".join("".join(f"{line}\n" for line in document) for document in documents)


def _tagged(tokens: Sequence[Token]) -> str:
    return " ".join(f"{token.word}|{token.tag}" for token in tokens)


def _check_same(folder: Path, manifest: bytes) -> None:
    try:
        found = (folder / MANIFEST).read_bytes()
    except OSError:
        found = b""
    if found != manifest:
        raise RunError(
            f"{folder} already exists and does not hold this mini corpus. "
            "Choose another folder, or remove this one first."
        )
