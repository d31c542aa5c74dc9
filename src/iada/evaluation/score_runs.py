"""Score a run folder: translate its test split if need be, and keep every score in one file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from iada.config.data import Split
from iada.config.evaluate import EvaluateConfig
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.readers import read_split
from iada.decoding.files import details_file, translate_split, translations_name
from iada.decoding.translator import DocumentTranslator
from iada.errors import RunError
from iada.evaluation.contrastive import contrastive_accuracy, generative_accuracy, source_documents
from iada.evaluation.cxmi import SentenceCxmi, context_use, summarize_cxmi
from iada.evaluation.metrics import SegmentScorer
from iada.evaluation.score_files import score_split
from iada.runs.folder import RunFolder
from iada.storage import read_object, write_json, write_text

CXMI_FILE = "cxmi.jsonl"
"""In the run folder: what the context does for each token, one line per sentence."""
# Costly scores of the translation; those of an older translation must not stay.
_OPTIONAL_SCORES = ("comet", "slide_comet", "doc_comet", "baseline", "significance")


def score_run(
    path: Path,
    translator: DocumentTranslator | None = None,
    *,
    baseline: Path | None = None,
    config: EvaluateConfig | None = None,
    scorer: SegmentScorer | None = None,
) -> tuple[dict[str, object], Path]:
    """Score the test translations of a run.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already.
        baseline: another run folder that was scored, or a file of translations, to compare with.
        config: metrics; the paper's settings by default.
        scorer: COMET, running.

    Returns:
        All scores of the run so far, and the file that holds them.
    """
    folder = RunFolder(path)
    data = folder.config().data
    hypothesis = folder.translations / translations_name(data)
    other = None if baseline is None else _translations(baseline, hypothesis.name)
    translate_test(path, translator)
    scores = score_split(hypothesis, data, "test", baseline=other, config=config, scorer=scorer)
    scores["translation"] = json.loads(details_file(hypothesis).read_text(encoding="utf-8"))
    return add_scores(folder, scores), folder.scores_file


def is_translated(path: Path) -> bool:
    """Whether a run has a translation of its test split by its present model."""
    folder = RunFolder(path)
    hypothesis = folder.translations / translations_name(folder.config().data)
    return _is_newer(hypothesis, folder.best_model() / "model.safetensors")


def translate_test(path: Path, translator: DocumentTranslator | None = None) -> None:
    """Translate the test split of a run, unless there is a translation by its present model.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already; several processes share the documents.
    """
    folder = RunFolder(path)
    data = folder.config().data
    hypothesis = folder.translations / translations_name(data)
    is_current = is_translated(path)
    if translator is not None:
        # All processes must come to the same decision.
        is_current = translator.processes.gather(is_current)[0]
    if is_current:
        return
    translator = translator or DocumentTranslator.load(path)
    if translator.processes.is_main and folder.scores_file.is_file():
        add_scores(folder, {}, stale=_OPTIONAL_SCORES)
    translate_split(translator, data, "test", hypothesis)


def contrast_run(
    path: Path,
    contrastive_set: Path,
    documents: Path | None = None,
    translator: DocumentTranslator | None = None,
) -> tuple[dict[str, object], Path]:
    """Measure the contrastive accuracy of a run.

    Args:
        path: the run folder.
        contrastive_set: in ContraPro's form.
        documents: folder of the context documents; by default the one beside the set.
        translator: the run's model, if it is loaded already.

    Returns:
        The accuracies, and the file that holds all scores of the run.
    """
    items = read_contrastive(contrastive_set, documents)
    translator = translator or DocumentTranslator.load(path)
    context = translator.windows.context
    result = contrastive_accuracy(items, translator.score, context=context)
    result["set"] = contrastive_set.name
    folder = RunFolder(path)
    if translator.processes.is_main:
        add_scores(folder, {"contrastive": result})
    return result, folder.scores_file


def generate_run(
    path: Path,
    contrastive_set: Path,
    documents: Path | None = None,
    translator: DocumentTranslator | None = None,
) -> tuple[dict[str, object], Path]:
    """Measure the generative accuracy of a run; arguments and result as in `contrast_run`."""
    items = read_contrastive(contrastive_set, documents)
    translator = translator or DocumentTranslator.load(path)
    context = translator.windows.context
    result = generative_accuracy(
        items, translator.translate(source_documents(items, context=context))
    )
    result["signature"] = (
        f"generative|context:{context}|target_context:own|beam:{translator.decode.beam}|"
        f"engine:{translator.engine.name}"
    )
    result["set"] = contrastive_set.name
    folder = RunFolder(path)
    if translator.processes.is_main:
        add_scores(folder, {"generative": result})
    return result, folder.scores_file


def measure_context_use(
    path: Path, translator: DocumentTranslator | None = None, *, split: Split = "test"
) -> tuple[dict[str, object], Path]:
    """Measure CXMI of a run; P-CXMI of every token goes to `cxmi.jsonl` in its folder.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already.
        split: what to measure it on. Other splits than the test split leave the scores of the run
            as they are, and their tokens go to `cxmi.<split>.jsonl`.

    Returns:
        The averages, and the file that holds all scores of the run.
    """
    folder = RunFolder(path)
    translator = translator or DocumentTranslator.load(path)
    sentences = context_use(translator, read_split(folder.config().data, split))
    result = summarize_cxmi(sentences)
    context = translator.windows.context
    result["signature"] = f"cxmi|context:{context}|target_context:reference|log:e"
    if translator.processes.is_main:
        name = CXMI_FILE if split == "test" else CXMI_FILE.replace(".", f".{split}.")
        write_text(path / name, _json_lines(sentences))
        if split == "test":
            add_scores(folder, {"cxmi": result})
    return result, folder.scores_file


def add_scores(
    folder: RunFolder, scores: Mapping[str, object], *, stale: Sequence[str] = ()
) -> dict[str, object]:
    """Merge scores into `scores.json`, drop those that are stale, return everything it holds."""
    known: dict[str, object] = {}
    if folder.scores_file.is_file():
        try:
            known = read_object(folder.scores_file)
        except ValueError:
            raise RunError(
                f"{folder.scores_file} is not valid JSON. Remove it and score the run again."
            ) from None
    known = {name: score for name, score in known.items() if name not in stale} | dict(scores)
    write_json(folder.scores_file, known)
    return known


def _translations(baseline: Path, name: str) -> Path:
    """Return the translations of a baseline: a file, or those of a run folder."""
    if not baseline.is_dir():
        return baseline
    path = RunFolder(baseline).translations / name
    if not path.is_file():
        raise RunError(f"{path} does not exist. Score the baseline first: iada evaluate {baseline}")
    return path


def _json_lines(sentences: Sequence[SentenceCxmi]) -> str:
    rows = (
        {
            "document": sentence.document,
            "sentence": sentence.sentence,
            "context": sentence.context,
            "cxmi": round(sentence.cxmi, 6),
            "tokens": list(sentence.tokens),
            "p_cxmi": [round(value, 6) for value in sentence.differences],
        }
        for sentence in sentences
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _is_newer(path: Path, than: Path) -> bool:
    """Whether a file exists that is not older than another one."""
    return path.is_file() and path.stat().st_mtime >= than.stat().st_mtime
