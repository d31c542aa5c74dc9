"""Which parts of speech augmentation perturbs (the paper's figure of POS tags).

Of all source tokens that are perturbed in the context, and of all in current sentences, the share
of each universal tag. The tilt by importance is small, so the exact expectation, a sum of
probabilities, is reported beside what was drawn. A uniform measure gives the base rates.

The shares of a run are counted once and kept in its folder.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from iada.analysis.taggers import GoldTagger, HanoverTagger, Tagger
from iada.config.data import DataConfig, Split
from iada.config.method import AugmentConfig
from iada.data.documents import Document
from iada.data.formats.readers import file_format, read_split
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretokenize import untagged
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.tokens.words import words_of_pieces
from iada.data.windows.batch import Role
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError
from iada.method.measuring import MeasuredGroup, measure_windows
from iada.method.perturbation import Drop, Vocabulary, perturb, word_start_table
from iada.runs.folder import RunFolder
from iada.seeding import generator as seeded_generator
from iada.storage import write_json

TAGS = ("NOUN", "PRON", "VERB", "ADJ", "ADV")
"""The tags of the paper's figure."""
REST = "OTHER"
"""All other tags together."""
NAMES = (*TAGS, REST)

Counts = npt.NDArray[np.float64]
_ROLES = (Role.CONTEXT, Role.CURRENT)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RoleShares:
    """Source tokens of one role; each array is (tags,), in the order of `NAMES`."""

    tokens: Counts
    """Number of tokens."""
    expected: Counts
    """Expected number of perturbed tokens of one draw: the sum of their probabilities."""
    sampled: Counts
    """Number of perturbed tokens of all draws."""

    def to_mapping(self) -> dict[str, dict[str, float | None]]:
        """Return percentages by tag, and the totals that they are percentages of."""
        kinds = {"tokens": self.tokens, "expected": self.expected, "sampled": self.sampled}
        return {name: _percentages(counts) for name, counts in kinds.items()}


@dataclass(frozen=True)
class PosShares:
    """Shares of universal tags among perturbed source tokens."""

    measure: str
    alpha: float
    tagger: str
    draws: int
    """How often every window was perturbed for the sampled shares."""
    unaligned: int
    """Sentences whose words and tokens spell different text; their tokens count as OTHER."""
    context: RoleShares
    current: RoleShares

    def to_mapping(self) -> dict[str, Any]:
        """Return everything as plain numbers and texts, for JSON."""
        return {
            "measure": self.measure,
            "alpha": self.alpha,
            "tagger": self.tagger,
            "draws": self.draws,
            "unaligned": self.unaligned,
            "context": self.context.to_mapping(),
            "current": self.current.to_mapping(),
        }


def perturbed_shares(
    run: Path,
    data: DataConfig | None = None,
    *,
    split: Split = "test",
    tagger: Tagger | Literal["auto", "gold", "hanta"] = "auto",
    augment: AugmentConfig | None = None,
    draws: int = 1,
    seed: int = 1,
    max_tokens: int = 4096,
) -> PosShares:
    """Perturb a split with a trained model and count parts of speech.

    Args:
        run: a finished run. Its windows are used.
        data: the corpus; by default the run's own.
        split: which part of it.
        tagger: who finds words and tags. `gold` reads `<source file>.pos`, `hanta` asks HanTa, and
            `auto` takes gold tags where there are any.
        augment: measure, probabilities and directions; by default the run's own.
        draws: how often to perturb every window for the sampled shares.
        seed: of the draws.
        max_tokens: tokens of a batch, padding included.
    """
    config = RunFolder(run).config()
    data = data or config.data
    augment = augment or config.augment
    if draws < 1:
        raise ConfigError(f"`draws` must be at least 1, but is {draws}.")
    if isinstance(tagger, str):
        tagger = choose_tagger(data, split, tagger)
    documents = read_split(data, split)
    translator = DocumentTranslator.load(run)
    store = TokenStore.build(documents, translator.subwords)
    tags, unaligned = token_tags(
        store, translator.subwords, [document.source for document in documents], tagger
    )
    windows = Windows(store, replace(config.windows, noisy_context=0), frame=translator.frame)
    word_starts = word_start_table(augment, Vocabulary.of_tokenizer(translator.subwords))
    batches = measure_windows(
        translator.model,
        windows,
        augment,
        max_tokens=max_tokens,
        seed=seed,
        word_starts=word_starts,
    )
    counts = np.zeros((len(_ROLES), 3, len(NAMES)))
    for number, batch in enumerate(batches):
        rows = window_tags(windows, tags, batch.numbers)
        generator = seeded_generator(seed, "parts_of_speech", number)
        counts += _count(batch.groups["source"], rows, draws, generator)
    context, current = (RoleShares(*role) for role in counts)
    return PosShares(
        augment.measure, augment.alpha, tagger.name, draws, unaligned, context, current
    )


def window_tags(
    windows: Windows, tags: npt.NDArray[np.int64], numbers: Sequence[int]
) -> list[npt.NDArray[np.int64]]:
    """Return the tags of the source tokens of windows that have a role, in their order.

    Args:
        windows: whose sentences to take.
        tags: (tokens,), of all source tokens of the store; see `token_tags`.
        numbers: which windows.
    """
    spans, offsets = windows.spans, np.asarray(windows.store.source.offsets)
    chosen = np.array(numbers)
    stops = spans.stop if spans.end is None else spans.end
    begins, ends = offsets[spans.first[chosen]], offsets[stops[chosen]]
    ids, special = np.asarray(windows.store.source.ids), windows.store.special.all
    return [
        # What a frame writes around and between sentences has no tag, wherever it stands.
        tags[begin:end][~np.isin(ids[begin:end], special)]
        for begin, end in zip(begins, ends, strict=True)
    ]


def choose_tagger(data: DataConfig, split: Split, name: Literal["auto", "gold", "hanta"]) -> Tagger:
    """Return the tagger of the source side of a split."""
    source = data.paths(split)[0]
    path = source.with_name(f"{source.name}.pos")
    if name == "hanta" or (name == "auto" and (data.hold_out or not path.is_file())):
        return HanoverTagger(data.source_language)
    if file_format(data, split) != "text" or data.hold_out:
        raise DataError(
            f"{source}: gold tags need a split of plain text in a file of its own. Choose `hanta`."
        )
    return GoldTagger(path, data.boundaries)


def token_tags(
    store: TokenStore, subwords: SubwordEncoding, documents: Sequence[Document], tagger: Tagger
) -> tuple[npt.NDArray[np.int64], int]:
    """Tag every source token of a store.

    Args:
        store: the tokens.
        subwords: their encoding.
        documents: the source side of the documents of the store.
        tagger: who tags the words.

    Returns:
        (tokens,), an index into `NAMES` for each token of the store, and the number of sentences
        whose words do not spell their tokens.
    """
    number_of = {name: number for number, name in enumerate(TAGS)}
    tags = np.full(len(store.source.ids), len(TAGS), dtype=np.int64)
    special = set(store.special.all)
    unaligned = sentence = 0
    # A tag such as <bt> is a token, but no text.
    texts = [Document(d.name, tuple(untagged(d.sentences, subwords.tags))) for d in documents]
    for tagged in tagger.tag(texts):
        for words in tagged:
            begin, end = store.source.offsets[sentence], store.source.offsets[sentence + 1] - 1
            sentence += 1
            ids = store.source.ids[begin:end].tolist()
            skipped = sum(number in special for number in ids)
            owners = words_of_pieces(subwords.pieces(ids[skipped:]), [word.word for word in words])
            if owners is None:
                unaligned += 1
                continue
            found = [number_of.get(words[owner].tag, len(TAGS)) for owner in owners]
            tags[begin + skipped : end] = found
    if unaligned:
        logger.warning(
            "%d of %d sentences have words that do not spell their tokens; their tokens count as "
            "%s.",
            unaligned,
            sentence,
            REST,
        )
    return tags, unaligned


def _count(
    source: MeasuredGroup,
    tags: Sequence[npt.NDArray[np.int64]],
    draws: int,
    generator: torch.Generator,
) -> Counts:
    """(roles, kinds, tags): tokens, expected and sampled numbers of a batch."""
    ids, probability = source.ids.cpu(), source.probability.double().cpu()
    roles = source.roles.cpu().numpy()
    drawn = torch.zeros(ids.shape, dtype=torch.float64)
    for _ in range(draws):
        drawn += perturb(ids, probability, Drop(0), generator=generator)[1]
    kinds = (np.ones(roles.shape), probability.numpy(), drawn.numpy())
    counts = np.zeros((len(_ROLES), len(kinds), len(NAMES)))
    for row, row_tags in enumerate(tags):
        places = np.flatnonzero(roles[row] != Role.SPECIAL)
        for role_number, role in enumerate(_ROLES):
            chosen = roles[row, places] == role
            for kind, values in enumerate(kinds):
                counts[role_number, kind] += np.bincount(
                    row_tags[chosen], values[row, places][chosen], len(NAMES)
                )
    return counts


def _percentages(counts: Counts) -> dict[str, float | None]:
    total = float(counts.sum())
    shares: dict[str, float | None] = {
        name: 100 * float(count) / total if total else None
        for name, count in zip(NAMES, counts, strict=True)
    }
    return {"total": total, **shares}


SHARES_FILE = "parts_of_speech.json"
"""In the run folder: percentages of the perturbed tokens by place and tag, drawn and exact."""

Shares = dict[str, dict[str, float]]
"""By `context` and `current`, and then by tag; those of one place sum to 1."""


def shares_of_run(run: Path) -> Shares:
    """Return the expected shares of perturbed tokens; they are kept in the run folder.

    Expected ones, not those of a draw: the tilt by importance is smaller than chance.
    """
    file = run / SHARES_FILE
    if not file.is_file():
        write_json(file, perturbed_shares(run).to_mapping())
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {
        place: {
            tag: percentage / 100
            for tag, percentage in found[place]["expected"].items()
            # A place without any perturbed token has no shares.
            if tag != "total" and percentage is not None
        }
        for place in ("context", "current")
    }
