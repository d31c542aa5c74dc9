"""A user's own runs: a verdict by rule, the sentences that decide, and their documents."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig
from iada.config.evaluate import EvaluateConfig
from iada.config.method import Method, augmentation
from iada.config.run import RunConfig
from iada.data.documents import Document
from iada.evaluation.score_files import SplitTranslations
from iada.report.overview import find_material, report_sections
from iada.report.own_runs import compare_own_runs, deciding_sentences, mark_differences
from iada.report.page import Fragment, Paragraph, Section
from iada.report.runs import RunSummary, load_run

REFERENCE = [f"Der Mann sah Lampe {number} am Abend ." for number in range(12)]
WRONG = [f"Die Frau nahm Uhr {number} mit ." for number in range(12)]
HOSTILE = "<script>alert(1)</script> & Co"
MakeRun = Callable[..., RunSummary]


@pytest.fixture
def own_run(tmp_path: Path) -> MakeRun:
    """Write a run whose test translations are the given lines, two documents of six sentences."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "test.de").write_text(_text(REFERENCE), encoding="utf-8")
    (corpus / "test.en").write_text(_text(["x"] * 12), encoding="utf-8")

    def write(method: Method, lines: list[str], seed: int = 1, bleu: float = 50.0) -> RunSummary:
        folder = tmp_path / "runs" / f"{method}-{seed}"
        (folder / "translations").mkdir(parents=True)
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}", encoding="utf-8")
        config = RunConfig(
            output=folder,
            method=method,
            seed=seed,
            data=DataConfig(folder=corpus),
            evaluate=EvaluateConfig(resamples=200),
            augment=augmentation(method),
        )
        write_yaml(folder / "config.yaml", to_mapping(config))
        (folder / "metrics.jsonl").write_text("", encoding="utf-8")
        scores = {"s_bleu": {"score": bleu, "signature": "tok:13a"}}
        (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        (folder / "translations" / "test.de").write_text(_text(lines), encoding="utf-8")
        return load_run(folder)

    return write


def _text(lines: list[str]) -> str:
    return "\n".join([*lines[:6], "", *lines[6:]]) + "\n"


def html_of(section: Section) -> str:
    (block,) = (block for block in section.blocks if isinstance(block, Fragment))
    return str(block.html)


def test_a_clear_difference_is_called_better_with_its_numbers(own_run: MakeRun) -> None:
    runs = [own_run("doc2doc", WRONG), own_run("iada_replace_gnorm", REFERENCE)]
    found = compare_own_runs(runs)
    (verdict,) = found.verdicts
    assert verdict.startswith("IADA (Repl, GNorm) is better than Doc2Doc (s-BLEU +")
    assert "on the test set, p = 0.0" in verdict
    assert "People prefer the same system in about" in verdict
    assert found.problems == ()
    assert [one.title for one in found.sections] == ["Significance", "Translations"]


def test_the_baseline_is_doc2doc_wherever_it_stands(own_run: MakeRun) -> None:
    runs = [own_run("iada_replace_gnorm", WRONG), own_run("doc2doc", REFERENCE)]
    (verdict,) = compare_own_runs(runs).verdicts
    assert verdict.startswith("IADA (Repl, GNorm) is worse than Doc2Doc (s-BLEU −")


def test_the_same_translations_cannot_be_told_apart(own_run: MakeRun) -> None:
    runs = [own_run("doc2doc", REFERENCE), own_run("word_drop", REFERENCE)]
    found = compare_own_runs(runs)
    assert found.verdicts[0].startswith("WordDrop cannot be told from Doc2Doc (s-BLEU 0.00")
    # Where nothing differs there is no example.
    assert [one.title for one in found.sections] == ["Significance"]


def test_seeds_are_compared_seed_by_seed(own_run: MakeRun) -> None:
    runs = [own_run("doc2doc", WRONG, seed, 20.0 + seed) for seed in (1, 2, 3)]
    runs += [own_run("word_drop", REFERENCE, seed, 30.0 + seed) for seed in (1, 2, 3)]
    (verdict,) = compare_own_runs(runs).verdicts
    assert verdict.endswith("Over 3 seeds: +10.00 ± 0.00 (+10.00 to +10.00), better.")


def test_a_single_run_says_that_it_stands_alone(own_run: MakeRun) -> None:
    found = compare_own_runs([own_run("doc2doc", [*REFERENCE[:11], "x"])])
    assert found.verdicts[0].startswith("Doc2Doc has 50.00 s-BLEU, but stands alone")
    (section,) = found.sections
    assert "sentence 6" in html_of(section)


def test_examples_link_to_their_documents_and_mark_what_differs(own_run: MakeRun) -> None:
    lines = [*REFERENCE[:3], HOSTILE, *REFERENCE[4:]]
    found = compare_own_runs([own_run("doc2doc", REFERENCE), own_run("word_drop", lines)])
    html = html_of(found.sections[-1])
    assert '<a href="#text-1-4">' in html
    assert 'id="text-1-4"' in html
    assert "6 sentences</summary>" in html
    assert html.count("<mark>Lampe</mark>") == 2
    assert "<script" not in html
    assert "<mark>&lt;script&gt;alert(1)&lt;/script&gt;</mark>" in html


def test_runs_without_translations_are_named(own_run: MakeRun) -> None:
    run = own_run("doc2doc", REFERENCE)
    (run.folder / "translations" / "test.de").unlink()
    found = compare_own_runs([run])
    assert found.sections == ()
    assert found.problems[0].startswith("Doc2Doc cannot be compared: ")


def test_the_verdict_stands_first_in_the_report(own_run: MakeRun, tmp_path: Path) -> None:
    own_run("doc2doc", WRONG)
    own_run("word_drop", REFERENCE)
    sections = report_sections(find_material([tmp_path / "runs"]))
    first = sections[0].blocks[0]
    assert isinstance(first, Paragraph)
    assert first.strong
    assert first.text.startswith("WordDrop is better than Doc2Doc")
    titles = [section.title for section in sections]
    assert titles[:4] == ["In short", "Results", "Significance", "Translations"]


def test_gains_and_losses_take_turns() -> None:
    correct = ["eins zwei", "drei vier", "fünf sechs", "sieben acht"]
    ours = ["eins zwei", "drei vier", "fünf sechs", "xx"]
    base = ["yy", "zz", "ff", "sieben acht"]
    texts = SplitTranslations(
        {"base": [Document("d", tuple(base))], "ours": [Document("d", tuple(ours))]},
        [Document("d", tuple(correct))],
        None,
    )
    assert (0, 3) in deciding_sentences(texts, "base", 2)
    assert len(deciding_sentences(texts, "base", 10)) == 4


def test_words_are_marked_where_the_texts_part() -> None:
    first, second, third = mark_differences(["er war grün", "sie war grün", "er war sehr grün"])
    assert [word.text for word in first if word.differs] == ["er"]
    assert [word.text for word in second if word.differs] == ["sie"]
    assert [word.text for word in third if word.differs] == ["sehr"]
