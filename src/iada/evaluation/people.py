"""What people make of translations: how far they agree with scores, and what to give them to judge.

How often people prefer the system that a metric prefers, given the difference of their scores, is
what Kocmi et al. (2024, "Navigating the Metrics Maze") estimated on the judgements of WMT; the
package `mt-thresholds` holds their curves. For judgements of one's own, `campaign` writes the file
of an evaluation with Pearmut: whole documents, systems side by side and unnamed.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.metrics import is_aligned

PROTOCOLS = ("ESA", "DA", "MQM")
"""How people judge: error spans and scores, scores alone, or spans with categories."""
# The names of COMET models, as far as their curves are known.
_COMET = {
    "wmt22-comet-da": "comet22",
    "wmt20-comet-da": "comet20",
    "wmt22-cometkiwi-da": "cometkiwi22",
    "xcomet-xxl": "xcometXXL",
    "xcomet-xl": "xcometXL",
}


def agreement(metric: str, difference: float, signature: str) -> float | None:
    """Return the share of pairs of systems with such a difference that people rank alike.

    Args:
        metric: key in `iada.evaluation.metrics.METRICS`.
        difference: of the scores, of either sign.
        signature: of the metric; it names the model of a learned one.

    Returns:
        Between 0.4 and 1; None if `mt-thresholds` is not installed or has no curve of the metric.
    """
    curve = _curve(metric, signature)
    if curve is None or importlib.util.find_spec("mt_thresholds") is None:
        return None
    with warnings.catch_warnings():
        # Its source has an escape that newer interpreters warn about.
        warnings.simplefilter("ignore")
        thresholds = importlib.import_module("mt_thresholds")
    return float(thresholds.accuracy(abs(difference), curve)) / 100


def _curve(metric: str, signature: str) -> str | None:
    if metric == "s_bleu" and "case:mixed" in signature and "tok:none" not in signature:
        return "bleu"
    if metric == "chrf" and "case:mixed" in signature:
        return "chrf"
    if metric == "comet":
        found = signature.lower()
        return next((curve for name, curve in _COMET.items() if f"model:{name}" in found), None)
    return None


def add_agreement(significance: Mapping[str, Mapping[str, Any]]) -> None:
    """Add `people_agree` to every comparison of a metric whose curve is known."""
    for key, found in significance.items():
        for one in found["systems"].values():
            share = agreement(key, one["difference"], found["signature"])
            if share is not None:
                one["people_agree"] = share


def agreement_sentence(metric: str, difference: float, share: float) -> str:
    """Say what a difference means to people."""
    return (
        f"People prefer the same system in about {share:.0%} of pairs that differ by "
        f"{abs(difference):.2f} {metric} (Kocmi et al., 2024)."
    )


def campaign(
    systems: Mapping[str, Sequence[Document]],
    sources: Sequence[Document],
    references: Sequence[Document] | None = None,
    *,
    name: str,
    protocol: str = "ESA",
    users: int = 3,
) -> dict[str, object]:
    """Return a campaign of Pearmut, in which people judge whole documents.

    Args:
        systems: translated documents by name of the system; people do not see the names.
        sources: the source documents.
        references: shown beside the source, if given.
        name: of the campaign.
        protocol: one of `PROTOCOLS`.
        users: number of people; documents are handed out at random.
    """
    for system, documents in systems.items():
        if len(documents) != len(sources) or not is_aligned(documents, sources):
            raise DataError(
                f"{system} has other sentences than the source, so people cannot judge them side "
                "by side. Translate the very same lines."
            )
    data = []
    for number, source in enumerate(sources):
        items = []
        for place, sentence in enumerate(source.sentences):
            if not sentence.strip():
                continue
            texts = {key: documents[number].sentences[place] for key, documents in systems.items()}
            item: dict[str, object] = {"item_id": f"{source.name} # {place + 1}"}
            item |= {"src": sentence, "tgt": texts}
            if references is not None:
                item["ref"] = references[number].sentences[place]
            items.append(item)
        if items:
            data.append(items)
    info = {"assignment": "single-stream", "protocol": protocol, "users": users}
    return {"campaign_id": name, "info": info, "data": data}
