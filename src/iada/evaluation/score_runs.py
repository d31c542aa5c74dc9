"""Score a run folder: translate its test split if need be, and keep every score in one file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from iada.config.data import DataConfig, Split
from iada.config.evaluate import EvaluateConfig
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.readers import read_split
from iada.decoding.files import details_file, translate_split, translations_name
from iada.decoding.translator import DocumentTranslator
from iada.errors import DataError, RunError
from iada.evaluation.contrastive import contrastive_accuracy, generative_accuracy, source_documents
from iada.evaluation.cxmi import SentenceCxmi, context_use, summarize_cxmi
from iada.evaluation.metrics import SegmentScorer
from iada.evaluation.model_card import update_card
from iada.evaluation.score_files import score_split
from iada.runs.folder import RunFolder, changed_at, weight_files
from iada.storage import read_object, sha256, write_json, write_text

CXMI_FILE = "cxmi.jsonl"
"""In the run folder: what the context does for each token, one line per sentence."""
# Costly scores of the translation; those of an older translation must not stay.
_OPTIONAL_SCORES = ("comet", "slide_comet", "doc_comet", "baseline", "significance")


def score_run(
    path: Path,
    translator: DocumentTranslator | None = None,
    *,
    baseline: Path | None = None,
    data: DataConfig | None = None,
    config: EvaluateConfig | None = None,
    scorer: SegmentScorer | None = None,
) -> tuple[dict[str, object], Path]:
    """Score the test translations of a run.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already.
        baseline: another run folder, which translates what it has not translated yet, or a file of
            translations, to compare with.
        data: the corpus whose test split to score; by default the run's own, wherever it is.
        config: metrics; the paper's settings by default.
        scorer: COMET, running.

    Returns:
        All scores of the run so far, and the file that holds them. Those on another corpus than the
        run's own stand beside the translation of that corpus.
    """
    folder = RunFolder(path)
    data = data or folder.config().data
    hypothesis = translate_test(path, translator, data)
    other = baseline
    if baseline is not None and baseline.is_dir():
        other = translate_test(baseline, None, data)
    scores = score_split(hypothesis, data, "test", baseline=other, config=config, scorer=scorer)
    scores["translation"] = json.loads(details_file(hypothesis).read_text(encoding="utf-8"))
    if hypothesis.parent == folder.translations:
        return add_scores(folder, scores), folder.scores_file
    scores_file = hypothesis.with_name(folder.scores_file.name)
    write_json(scores_file, scores)
    return scores, scores_file


def is_translated(path: Path, data: DataConfig | None = None) -> bool:
    """Whether a run has a translation of the test split by its present model.

    Args:
        path: the run folder.
        data: the corpus; by default the run's own.
    """
    folder = RunFolder(path)
    data = data or folder.config().data
    hypothesis = _translation(folder, data)
    made = changed_at(weight_files(folder.best_model()))
    # The details are written last: without them the translation was interrupted at its very end.
    is_whole = hypothesis.is_file() and details_file(hypothesis).is_file()
    is_newer = is_whole and hypothesis.stat().st_mtime >= made
    return is_newer and _translated_inputs(hypothesis) in (None, split_digests(data))


def translate_test(
    path: Path, translator: DocumentTranslator | None = None, data: DataConfig | None = None
) -> Path:
    """Translate the test split of a run, unless there is a translation by its present model.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already; several processes share the documents.
        data: the corpus; by default the run's own.

    Returns:
        The translation. That of another corpus has a folder of its own.
    """
    folder = RunFolder(path)
    data = data or folder.config().data
    hypothesis = _translation(folder, data)
    is_current = is_translated(path, data)
    if translator is not None:
        # All processes must come to the same decision.
        is_current = translator.processes.gather(is_current)[0]
    if is_current:
        return hypothesis
    translator = translator or DocumentTranslator.load(path)
    is_own = hypothesis.parent == folder.translations
    if is_own and translator.processes.is_main and folder.scores_file.is_file():
        add_scores(folder, {}, stale=_OPTIONAL_SCORES)
    translate_split(translator, data, "test", hypothesis)
    return hypothesis


def _translation(folder: RunFolder, data: DataConfig) -> Path:
    """Return where a run has its translation of a test split."""
    name = translations_name(data)
    if not _is_another(folder.config().data, data):
        return folder.translations / name
    digest = hashlib.sha256("".join(split_digests(data)).encode()).hexdigest()[:8]
    return folder.translations / f"other-{digest}" / name


def split_digests(data: DataConfig) -> list[str]:
    """Return the sha256 of the files of a test split, as a translation of it records them."""
    for path in data.paths("test"):
        if not path.is_file():
            raise DataError(
                f"{path} does not exist. If the corpus has moved, say where it is: `--data.folder "
                "FOLDER`."
            )
    return [sha256(path) for path in sorted(set(data.paths("test")))]


def _is_another(own: DataConfig, data: DataConfig) -> bool:
    """Whether a corpus is known to be another one than the run's own."""
    paths = own.paths("test")
    return all(path.is_file() for path in paths) and split_digests(own) != split_digests(data)


def _translated_inputs(hypothesis: Path) -> object:
    """Return the digests of what was translated; None if they were not recorded."""
    details = details_file(hypothesis)
    if not details.is_file():
        return None
    return json.loads(details.read_text(encoding="utf-8")).get("inputs")


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
    path: Path,
    translator: DocumentTranslator | None = None,
    data: DataConfig | None = None,
    *,
    split: Split = "test",
) -> tuple[dict[str, object], Path]:
    """Measure CXMI of a run; P-CXMI of every token goes to `cxmi.jsonl` in its folder.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already.
        data: the corpus; by default the run's own.
        split: what to measure it on. Other splits than the test split leave the scores of the run
            as they are, and their tokens go to `cxmi.<split>.jsonl`.

    Returns:
        The averages, and the file that holds all scores of the run.
    """
    folder = RunFolder(path)
    translator = translator or DocumentTranslator.load(path)
    sentences = context_use(translator, read_split(data or folder.config().data, split))
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
    # The scores last: a run that has them is not scored again, so its card must have them too.
    update_card(folder, known)
    write_json(folder.scores_file, known)
    return known


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
