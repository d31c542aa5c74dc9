"""Context-rich windows: those whose translation depends on their context, as a trained model finds.

The score of a window is the highest P-CXMI among the tokens of its current part: by how many nats
the context makes that token more probable. One token decides, since most of a sentence never needs
its context. `iada evaluate --cxmi --cxmi_split train` writes the scores of all training sentences.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iada.config.train import RichConfig
from iada.data.formats.lines import read_lines
from iada.data.windows.windows import Windows
from iada.errors import DataError

logger = logging.getLogger(__name__)

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def rich_windows(windows: Windows, config: RichConfig) -> Bools | None:
    """(windows,): which of them are context-rich; None if nothing says so.

    As many as the share of the configuration asks for, rounded, and at least one; of equal scores
    the first windows.
    """
    if config.scores is None:
        return None
    scores = window_scores(windows, config.scores)
    count = max(1, round(config.share * len(scores)))
    is_rich = np.zeros(len(scores), dtype=np.bool_)
    is_rich[np.argsort(-scores, kind="stable")[:count]] = True
    lowest = scores[is_rich].min()
    logger.info(
        "%d of %d training windows are context-rich: P-CXMI of at least %.3f nats at a token.",
        count,
        len(scores),
        lowest,
    )
    return is_rich


def window_scores(windows: Windows, path: Path) -> Floats:
    """(windows,): the highest P-CXMI of a token in the current part of each window.

    Raises:
        DataError: the file is not what `iada evaluate` writes, or lacks a window's sentences.
    """
    store, spans = windows.store, windows.spans
    document_of = {name: number for number, name in enumerate(store.document_names)}
    if len(document_of) < len(store.document_names):
        raise DataError(
            "Training documents share a name, so that scores cannot be told apart. Name them apart."
        )
    # One more, where a window that ends with the last sentence stops.
    best = np.full(len(store) + 1, -np.inf)
    for name, sentence, value in _sentence_scores(path):
        number = document_of.get(name)
        if number is None:
            continue
        first, stop = store.document_starts[number : number + 2]
        if first + sentence > stop:
            raise DataError(
                f"{path}: has sentence {sentence} of {name}, which has {stop - first}. "
                "The scores are of another text: measure them again."
            )
        best[first + sentence - 1] = value
    bounds = np.stack([spans.current, spans.stop], axis=1).ravel()
    found = np.maximum.reduceat(best, bounds)[::2]
    if len(absent := np.flatnonzero(np.isneginf(found))):
        current = int(spans.current[absent[0]])
        document = int(store.document_of[current])
        raise DataError(
            f"{path}: {len(absent)} of {len(found)} windows have no score, the first of them that "
            f"of sentence {current - int(store.document_starts[document]) + 1} of "
            f"{store.document_names[document]}. Measure the training split with `iada evaluate RUN "
            "--cxmi --cxmi_split train`, where RUN was trained on the same text."
        )
    return found


def _sentence_scores(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield document, number of the sentence from 1, and its highest P-CXMI."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(line)
            name, sentence, values = row["document"], row["sentence"], row["p_cxmi"]
            best = max(map(float, values))
            if not isinstance(name, str) or not isinstance(sentence, int) or sentence < 1:
                raise ValueError("document and sentence must be a name and a number from 1")
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{path}:{number}: is no line of CXMI scores ({error}). Write them with "
                "`iada evaluate RUN --cxmi --cxmi_split train`."
            ) from None
        yield name, sentence, best
