"""How much a model uses its context: CXMI and P-CXMI (Fernandes et al., 2021, 2023).

CXMI is the mean over sentences of log p(y | x, C) - log p(y | x): how much more probable the
reference translation y becomes when the model sees the context C on both sides. P-CXMI is the same
difference for one token, and those of a sentence add up to the sentence's. Both probabilities come
from one model, in nats; the context is the reference's own. A sentence-level model has 0
everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from iada.data.documents import ParallelDocument
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import EOS
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator, token_log_probabilities
from iada.evaluation.significance import FloatArray
from iada.models.observation import Observer


@dataclass(frozen=True)
class SentenceCxmi:
    """What the context does for one sentence."""

    document: str
    sentence: int
    """Number of the sentence in its document, counted from 1."""
    context: int
    """Number of context sentences that the model saw."""
    tokens: tuple[str, ...]
    """Pieces of the reference, and `</s>`."""
    differences: tuple[float, ...]
    """P-CXMI of each token."""

    @property
    def cxmi(self) -> float:
        """Difference of the log-probabilities of the sentence."""
        return sum(self.differences)


def context_use(
    translator: DocumentTranslator, documents: Sequence[ParallelDocument]
) -> list[SentenceCxmi]:
    """Measure CXMI of every sentence pair that has text on both sides.

    Args:
        translator: the model, with the context it was trained on.
        documents: source and reference.
    """
    subwords = translator.subwords
    store = TokenStore.build(documents, subwords)
    one_by_one = replace(translator.windows, strategy="sliding", stride=1, loss_on="current")
    one_by_one = replace(one_by_one, noisy_context=0)
    with_context = Windows(store, one_by_one, frame=translator.frame)
    # Nothing before the sentence and nothing after it.
    alone = replace(translator.frame, after=0)
    without = Windows(store, replace(one_by_one, context=0), frame=alone)
    observer = Observer(translator.model)
    try:
        seen, unseen = (
            _scores(translator, observer, windows) for windows in (with_context, without)
        )
    finally:
        observer.remove()
    # The current sentences are the same in both, one window each.
    spans = with_context.spans
    differences = (one - other for one, other in zip(seen, unseen, strict=True))
    return [
        _sentence(translator, store, int(current), int(current - first), values)
        for first, current, values in zip(spans.first, spans.current, differences, strict=True)
    ]


def _sentence(
    translator: DocumentTranslator,
    store: TokenStore,
    sentence: int,
    context: int,
    differences: FloatArray,
) -> SentenceCxmi:
    document = int(store.document_of[sentence])
    begin, end = store.target.offsets[sentence], store.target.offsets[sentence + 1] - 1
    pieces = translator.subwords.pieces(store.target.ids[begin:end].tolist())
    return SentenceCxmi(
        document=store.document_names[document],
        sentence=sentence - int(store.document_starts[document]) + 1,
        context=context,
        tokens=(*pieces, EOS),
        differences=tuple(differences.tolist()),
    )


def summarize_cxmi(sentences: Sequence[SentenceCxmi]) -> dict[str, object]:
    """Average over all sentences, over those that have context at all, and over tokens.

    Returns:
        `cxmi` and `sentences`; `with_context` with the same two; `per_token` and `tokens`; and the
        share of sentences that context makes more probable, `helped`.
    """
    values = np.array([sentence.cxmi for sentence in sentences])
    has_context = np.array([sentence.context > 0 for sentence in sentences])
    tokens = sum(len(sentence.differences) for sentence in sentences)
    return {
        "cxmi": float(values.mean()),
        "sentences": len(sentences),
        "with_context": {
            "cxmi": float(values[has_context].mean()) if has_context.any() else 0.0,
            "sentences": int(has_context.sum()),
        },
        "per_token": float(values.sum() / tokens),
        "tokens": tokens,
        "helped": float((values > 0).mean()),
    }


def _scores(
    translator: DocumentTranslator, observer: Observer, windows: Windows
) -> list[FloatArray]:
    return token_log_probabilities(
        observer,
        windows,
        range(len(windows)),
        pad_id=translator.subwords.special.pad,
        max_tokens=translator.decode.max_tokens,
        processes=translator.processes,
    )
