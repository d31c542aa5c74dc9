"""The mini corpus on disk, and its contrastive pronoun set in ContraPro's format.

A contrastive item is a sentence with a nominative pronoun, its translation, and the two
translations with a pronoun of another gender. Each has a document of its own, in which the pronoun
of the second episode is tested, so that all items have at least three sentences of context.

A corpus folder appears whole or not at all, and is never overwritten. Its manifest records the
settings and the hash of every file, so equal manifests mean equal corpora.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from iada.config.run import MiniSize, MiniVersion
from iada.data.mini.composition import (
    COVERING_DOCUMENTS,
    DISTANCE_WEIGHTS,
    Episode,
    Stock,
    compose,
    generate_documents,
    open_stock,
    random_stream,
    rotate_genders,
)
from iada.data.mini.grammar import PRONOUNS
from iada.data.mini.lexicon import GENDERS, TaggedDocument, TaggedSentence, Token
from iada.errors import ConfigError, RunError

Error = TypedDict(
    "Error",
    {"contrastive": str, "replacement": str, "replacement gender": str, "type": str},
)

Item = TypedDict(
    "Item",
    {
        "document id": str,
        "segment id": int,
        "src segment": str,
        "ref segment": str,
        "src pronoun": str,
        "ref pronoun": str,
        "ante distance": int,
        "intrasegmental": bool,
        "corpus": str,
        "errors": list[Error],
        "src ante phrase": str,
        "src ante head": str,
        "src ante head id": int,
        "src ante head lemma": str,
        "src ante head pos": str,
        "src ante head gender": str | None,
        "src ante head morpho": str | None,
        "ref ante phrase": str,
        "ref ante head": str,
        "ref ante head id": int,
        "ref ante head lemma": str,
        "ref ante head pos": str,
        "ref ante head gender": str,
        "ref ante head morpho": str,
    },
)

_TESTED = 1
"""Position of the tested episode among the episodes of its document."""


def generate_contrastive(
    per_cell: int, *, seed: int, version: int = 1
) -> tuple[list[Item], list[TaggedDocument]]:
    """Generate the set with one context document per item.

    Args:
        per_cell: items for each pronoun class and antecedent distance.
        seed: another seed gives another set.
        version: version of the corpus.
    """
    stock = open_stock(version, seed, "contrastive")
    items: list[Item] = []
    documents: list[TaggedDocument] = []
    for distance in range(len(DISTANCE_WEIGHTS)):
        for number in range(per_cell):
            for rotation in range(len(GENDERS)):
                document = _context_document(stock, distance, number, rotation)
                documents.append(document)
                items.append(_item(document))
    return items, documents


def _context_document(stock: Stock, distance: int, number: int, rotation: int) -> TaggedDocument:
    version, seed = stock.edition.version, stock.seed
    plan = random_stream(version, seed, "contrastive", "plan", distance, number)
    topic = stock.edition.topics[number % len(stock.edition.topics)]
    tested = Episode(
        distance, subject=True, gender=rotate_genders(plan, rotation), same_object=False, pause=True
    )
    before = Episode(
        plan.choice((1, 2)),
        subject=False,
        # Drawn apart from the tested gender, so that the one says nothing about the other.
        gender=plan.choice(GENDERS),
        same_object=False,
        pause=True,
    )
    text = random_stream(version, seed, "contrastive", "text", distance, number, rotation)
    name = f"mini-{distance}-{number:03d}-{rotation}"
    return compose(name, topic, [before, tested], text, stock)


def _item(document: TaggedDocument) -> Item:
    places = [i for i, s in enumerate(document.sentences) if s.pronoun is not None]
    place = places[_TESTED]
    sentence = document.sentences[place]
    pronoun = sentence.pronoun
    assert pronoun is not None
    antecedent = document.sentences[place - pronoun.distance]
    mention = antecedent.mention
    assert mention is not None
    forms = PRONOUNS[pronoun.case]
    return {
        "document id": document.name,
        "segment id": place + 1,
        "src segment": sentence.source_text,
        "ref segment": sentence.target_text,
        "src pronoun": "it",
        "ref pronoun": forms[pronoun.noun.gender],
        "ante distance": pronoun.distance,
        "intrasegmental": pronoun.distance == 0,
        "corpus": "iada-mini",
        "errors": [
            {
                "contrastive": _with_pronoun(sentence, pronoun.target_index, forms[gender]),
                "replacement": forms[gender],
                "replacement gender": gender,
                "type": "pronominal coreference",
            }
            for gender in GENDERS
            if gender != pronoun.noun.gender
        ],
        "src ante phrase": _phrase(antecedent.source, mention.source_start, mention.source_head),
        "src ante head": mention.noun.source,
        "src ante head id": mention.source_head + 1,
        "src ante head lemma": mention.noun.source,
        "src ante head pos": "NN",
        "src ante head gender": None,
        "src ante head morpho": None,
        "ref ante phrase": _phrase(antecedent.target, mention.target_start, mention.target_head),
        "ref ante head": mention.noun.target,
        "ref ante head id": mention.target_head + 1,
        "ref ante head lemma": mention.noun.target,
        "ref ante head pos": "NN",
        "ref ante head gender": mention.noun.gender,
        "ref ante head morpho": f"{mention.noun.gender}|{mention.case}|Sg",
    }


def _phrase(tokens: tuple[Token, ...], start: int, head: int) -> str:
    return " ".join(token.word for token in tokens[start : head + 1])


def _with_pronoun(sentence: TaggedSentence, index: int, form: str) -> str:
    old = sentence.target[index]
    word = form.capitalize() if old.word[0].isupper() else form
    tokens = (*sentence.target[:index], Token(word, old.tag), *sentence.target[index + 1 :])
    return replace(sentence, target=tokens).target_text


MANIFEST = "manifest.json"


TRAIN_DOCUMENTS: dict[MiniSize, int] = {"scarce": COVERING_DOCUMENTS, "plentiful": 540}


@dataclass(frozen=True, kw_only=True)
class MiniConfig:
    """Which mini corpus to write."""

    version: MiniVersion = 2
    """Version 2 shares no sentence pair between training and the other splits. In version 1 most
    test sentences occur in the training text."""
    size: MiniSize = "scarce"
    """`scarce` has 72 training documents, `plentiful` 540; `train_documents` overrides both."""
    seed: int = 1
    """Another seed gives another corpus of the same kind."""
    train_documents: int | None = None
    """Training documents, of about twelve sentences each, if not as many as `size` says. Multiples
    of 18 balance the topics, and multiples of 3 the genders. With fewer than 72, the other splits
    may have word forms that training lacks."""
    dev_documents: int = 36
    """Development documents."""
    test_documents: int = 36
    """Test documents."""
    contrastive_per_cell: int = 15
    """Contrastive items for each pronoun class and antecedent distance."""

    def __post_init__(self) -> None:
        for name, value in self.counts().items():
            if value < 1:
                raise ConfigError(f"`corpus.{name}` must be at least 1, but is {value}.")

    def counts(self) -> dict[str, int]:
        """Return the resolved number of documents of each split and of items per cell."""
        documents = self.train_documents
        return {
            "train_documents": TRAIN_DOCUMENTS[self.size] if documents is None else documents,
            "dev_documents": self.dev_documents,
            "test_documents": self.test_documents,
            "contrastive_per_cell": self.contrastive_per_cell,
        }


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
    counts, seed, version = config.counts(), config.seed, config.version
    for split in ("train", "dev", "test"):
        count = counts[f"{split}_documents"]
        documents = generate_documents(count, seed=seed, split=split, version=version)
        texts.update(_split_files(split, documents))
    items, contexts = generate_contrastive(config.contrastive_per_cell, seed=seed, version=version)
    texts["contrastive.json"] = json.dumps(items, ensure_ascii=False, indent=1) + "\n"
    for context in contexts:
        pair = context.parallel()
        texts[f"contrastive/{context.name}.en"] = "".join(f"{s}\n" for s in pair.source.sentences)
        texts[f"contrastive/{context.name}.de"] = "".join(f"{s}\n" for s in pair.target.sentences)
    files = {name: text.encode() for name, text in texts.items()}
    manifest = {
        "grammar_version": version,
        "config": {"seed": seed, **counts},
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
