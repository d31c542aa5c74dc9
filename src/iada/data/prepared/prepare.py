"""Prepare a corpus: read, check and learn the encoding in one pass, then encode each split.

Everything is made in a folder beside the output, `<output>.partial`, stage by stage; a stage
appears there under its name only when it is complete. The last step gives the folder its own name.
So a killed run leaves nothing that looks finished, and the next run resumes after the last complete
stage, provided that settings and input files are the same.
"""

import json
import logging
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tqdm import tqdm

from iada import __version__
from iada.config.data import DataConfig, Split, SubwordConfig, WindowConfig
from iada.config.method import AugmentConfig
from iada.data.documents import ParallelDocument
from iada.data.formats.findings import Findings
from iada.data.formats.readers import iterate_documents
from iada.data.prepared.checks import CorpusChecks
from iada.data.prepared.encoding import Workers, pretokenized, usable_cores, write_store
from iada.data.prepared.prepared_corpus import (
    FORMAT,
    MANIFEST,
    PreparedCorpus,
    describe_work,
    remember_verified,
    store_settings,
)
from iada.data.tokens.ciphers import Ciphers, learn_ciphers
from iada.data.tokens.paired_subwords import PairedSubwords, WordPieces
from iada.data.tokens.pretokenize import configured_moses
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SubwordEncoding, train_subwords
from iada.errors import DataError, RunError
from iada.storage import locked, put_in_place, sha256, write_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Preparation:
    """One corpus to prepare."""

    data: DataConfig
    subwords: SubwordConfig
    output: Path
    windows: WindowConfig = field(default_factory=WindowConfig)
    """The noisy context that the manifest describes, if there is any."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """The ciphers that the encoding is learned with, if there are any."""
    pretrained: PretrainedSubwords | WordPieces | None = None
    """The encoding of a pre-trained model, in place of one that is learned; word pieces of a BERT
    are in place of that of the source."""
    strict: bool = False
    """Refuse a corpus with errors instead of keeping what is right and counting the rest."""
    workers: int = 0
    """Processes; 0 means one per core."""

    @property
    def partial(self) -> Path:
        """Folder of the unfinished work."""
        return self.output.with_name(f"{self.output.name}.partial")

    @property
    def splits(self) -> tuple[Split, ...]:
        """Splits whose files exist; training and validation must."""
        names: tuple[Split, ...] = ("train", "dev", "test")
        return tuple(
            name
            for name in names
            if name != "test" or all(path.is_file() for path in self.data.paths(name))
        )

    @property
    def processes(self) -> int:
        """Number of worker processes."""
        return self.workers or usable_cores()

    @cached_property
    def fingerprint(self) -> str | None:
        """Identity of the pre-trained encoding, if there is one."""
        return None if self.pretrained is None else self.pretrained.fingerprint()

    def plan(self) -> dict[str, Any]:
        """Return everything that the result depends on; reads the input files once."""
        for split in self.splits:
            for path in self.data.paths(split):
                if not path.is_file():
                    raise DataError(
                        f"{path} does not exist or is not a file. "
                        "Check the folder and file name of the split."
                    )
        # By split and side: files of different folders may have one name.
        inputs = {split: [sha256(path) for path in self.data.paths(split)] for split in self.splits}
        return {
            "format": FORMAT,
            "iada": __version__,
            "settings": store_settings(self.data, self.subwords, self.augment, self.fingerprint),
            "inputs": inputs,
        }


def prepare(
    preparation: Preparation, inspect: Callable[[PreparedCorpus], None] | None = None
) -> PreparedCorpus:
    """Prepare a corpus, or resume what an earlier run left; a finished one is kept.

    Args:
        preparation: the corpus.
        inspect: is given the corpus before the folder gets its name. What it raises leaves no
            finished folder, and all stages for the next run.

    Raises:
        DataError: a split keeps no document, or strict mode found errors.
    """
    plan = preparation.plan()
    output, partial = preparation.output, preparation.partial
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        corpus = _finished(preparation, plan)
        if inspect is not None:
            inspect(corpus)
        return corpus
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial, "preparing"), Workers(preparation.processes) as workers:
        _continue_or_clear(partial, plan)
        if not (partial / "tokenizer").is_dir():
            _check_and_learn(preparation, workers)
        elif preparation.strict:
            _refuse_known_errors(partial)
        for split in preparation.splits:
            if not (partial / split).is_dir():
                _encode_split(preparation, split, workers)
        manifest = plan | describe_work(
            partial,
            preparation.splits,
            subset_seed=preparation.data.subset_seed,
            windows=preparation.windows,
        )
        if inspect is not None:
            inspect(PreparedCorpus(partial, manifest))
        write_text(partial / MANIFEST, _json(manifest))
        put_in_place(partial, output)
    remember_verified(output, manifest)
    return PreparedCorpus.open(output)


def finished_stages(preparation: Preparation) -> list[str]:
    """Return the complete stages that an earlier run left."""
    stages = ("checks", "tokenizer", *preparation.splits)
    return [stage for stage in stages if (preparation.partial / stage).is_dir()]


def _finished(preparation: Preparation, plan: dict[str, Any]) -> PreparedCorpus:
    """Return the corpus that is there already, if it is the one that was asked for."""
    output = preparation.output
    if not (output / MANIFEST).is_file():
        raise RunError(
            f"{output} holds files, but no prepared corpus. Choose another folder as "
            "`--data.prepared`, or remove it yourself."
        )
    corpus = PreparedCorpus.open(output)
    corpus.check_settings(
        preparation.data, preparation.subwords, preparation.augment, preparation.fingerprint
    )
    if corpus.manifest["inputs"] != plan["inputs"]:
        raise RunError(
            f"{output} was prepared from other files than those of {preparation.data.folder}. "
            "Choose another folder as `--data.prepared`, or remove it yourself."
        )
    if preparation.strict:
        _refuse_known_errors(output)
    logger.info("%s is prepared already: nothing to do.", output)
    return corpus


def _refuse_known_errors(folder: Path) -> None:
    """Refuse, in strict mode, a corpus whose errors an earlier run only counted."""
    if errors := _read(folder / "checks" / "checks.json")["errors"]:
        raise DataError(
            f"The corpus of {folder} has {errors} errors, all named in "
            f"{folder / 'checks' / 'findings.jsonl'}. Correct it, or prepare without `--strict`."
        )


def _continue_or_clear(partial: Path, plan: dict[str, Any]) -> None:
    """Keep complete stages of the same plan; remove everything else.

    The manifest of unfinished work holds the plan alone.
    """
    manifest_file = partial / MANIFEST
    try:
        saved = _read(manifest_file)
    except (OSError, ValueError):
        saved = {}
    same = all(saved.get(key) == value for key, value in plan.items())
    for path in partial.iterdir():
        if same and not path.name.startswith("."):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not same:
        write_text(manifest_file, _json(plan))


def _check_and_learn(preparation: Preparation, workers: Workers) -> None:
    """Read all splits once: report every problem, and learn the encoding from the training text."""
    config = preparation.subwords
    with _stage(preparation.partial, "checks") as folder:
        with (folder / "findings.jsonl").open("w", encoding="utf-8", newline="\n") as log:
            findings = Findings(log)
            data = preparation.data
            languages = data.source_language, data.target_language
            checks = CorpusChecks(findings, config.tags, languages)
            # Validation and test first: training sentences are compared with theirs.
            for split in preparation.splits[1:]:
                for _ in checks.watch(split, iterate_documents(preparation.data, split, findings)):
                    pass
                _require_documents(split, checks, findings)
            # The alphabet must be known before the first sentence is enciphered: read it ahead.
            ahead = iterate_documents(preparation.data, "train", Findings())
            ciphers = learn_ciphers(ahead, preparation.augment, tags=config.tags)
            text = _training_text(preparation, checks, findings, workers, ciphers)
            subwords: SubwordEncoding
            pretrained = preparation.pretrained
            if isinstance(pretrained, PretrainedSubwords):
                # Nothing to learn, but the text is checked as it goes by.
                deque(text, maxlen=0)
                subwords = pretrained
            else:
                learned = train_subwords(
                    text,
                    vocabulary_size=config.vocabulary_size,
                    merges=config.merges,
                    moses=configured_moses(preparation.data, config),
                    ciphers=ciphers,
                    tags=config.tags,
                )
                subwords = learned if pretrained is None else PairedSubwords(pretrained, learned)
        write_text(folder / "checks.json", _json(findings.summary()))
        write_text(folder / "checks.txt", findings.table() + "\n")
    with _stage(preparation.partial, "tokenizer") as folder:
        subwords.save(folder)


def _require_documents(split: Split, checks: CorpusChecks, findings: Findings) -> None:
    if not checks.documents(split):
        raise DataError(
            f"No document of `data.{split}` can be used, so there is nothing to prepare: "
            f"{findings.list_errors()}"
        )


def _training_text(
    preparation: Preparation,
    checks: CorpusChecks,
    findings: Findings,
    workers: Workers,
    ciphers: Ciphers | None,
) -> Iterator[str]:
    """Yield the training sentences to learn from; refuse at their end in strict mode."""
    documents = iterate_documents(preparation.data, "train", findings)
    watched = _with_progress(checks.watch("train", documents), "read and check")
    moses = configured_moses(preparation.data, preparation.subwords)
    tags = preparation.subwords.tags
    if isinstance(preparation.pretrained, WordPieces):
        for document in watched:
            yield from document.target.sentences
    else:
        yield from pretokenized(watched, moses, workers, ciphers=ciphers, tags=tags)
    _require_documents("train", checks, findings)
    checks.finish()
    if preparation.strict:
        findings.refuse_errors()
    # Learning merges keeps one core busy; the others can start what encoding needs.
    workers.start()


def _encode_split(preparation: Preparation, split: Split, workers: Workers) -> None:
    findings = Findings()
    documents = iterate_documents(preparation.data, split, findings)
    with _stage(preparation.partial, split) as folder:
        writer = write_store(
            _with_progress(documents, f"encode {split}"),
            folder,
            preparation.partial / "tokenizer",
            workers,
            # Validation and test are always plain.
            cipher=split == "train",
        )
        counts = {
            "documents": writer.documents,
            "sentences": writer.sentences,
            "tokens": writer.tokens,
        }
        write_text(folder / "counts.json", _json(counts))


def _with_progress(documents: Iterable[ParallelDocument], title: str) -> Iterator[ParallelDocument]:
    with tqdm(desc=title, unit=" sentences", unit_scale=True, disable=None) as bar:
        for document in documents:
            yield document
            bar.update(len(document))


@contextmanager
def _stage(partial: Path, name: str) -> Iterator[Path]:
    """Yield a folder to write in; it gets the name of the stage if the block raises nothing."""
    unfinished = partial / f".{name}"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir()
    yield unfinished
    if (partial / name).exists():
        shutil.rmtree(partial / name)
    put_in_place(unfinished, partial / name)


def _json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
