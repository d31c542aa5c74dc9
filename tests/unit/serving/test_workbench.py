"""What the page can ask for: translations that follow edits, and explanations of a sentence."""

from pathlib import Path

import pytest

from iada.config.data import WindowConfig
from iada.decoding.translator import DocumentTranslator
from iada.errors import DataError
from iada.serving.workbench import (
    SentenceRequest,
    ServedRun,
    TextRequest,
    Workbench,
    document_spans,
    load_workbench,
)

LINES = (
    "The old clock was in the kitchen.",
    "It was broken.",
    "The man saw it.",
    "",
    "The lamp was new.",
    "It was green.",
)


def test_every_line_is_translated_as_by_the_command(workbench: Workbench) -> None:
    found = dict(workbench.translate(TextRequest("run", LINES)))
    assert list(found) == [0, 1, 2, 4, 5]
    translator = workbench.runs["run"].translator
    assert "\n".join(found.get(n, "") for n in range(6)) == translator.translate("\n".join(LINES))


def test_without_context_each_sentence_is_translated_alone(workbench: Workbench) -> None:
    found = dict(workbench.translate(TextRequest("run", LINES, context=False)))
    translate = workbench.runs["run"].translator.translate
    assert found == {n: translate(line) for n, line in enumerate(LINES) if line}


def test_kept_translations_stand_and_the_rest_follows_them(served: ServedRun) -> None:
    seen: list[tuple[int, ...]] = []
    translator = served.translator
    engine = translator.engine

    class Listening:
        name = engine.name

        def search(self, requests):  # type: ignore[no-untyped-def]
            seen.extend(request.prefix for request in requests)
            return engine.search(requests)

    translator.engine = Listening()
    try:
        kept = ("Die alte Uhr .", None, "Der Mann sah sie .", "")
        found = dict(Workbench([served]).translate(TextRequest("run", LINES[:4], kept)))
    finally:
        translator.engine = engine
    assert list(found) == [1]
    (ids,) = translator.subwords.encode(["Die alte Uhr ."], "target")
    assert seen == [tuple(translator.frame.prefix([ids]))]


def test_a_document_that_is_kept_whole_costs_no_search(served: ServedRun) -> None:
    kept = ("a", "b", "c", "", None, None)
    found = dict(Workbench([served]).translate(TextRequest("run", LINES, kept)))
    assert list(found) == [4, 5]


def test_an_explanation_shows_the_window_of_the_sentence(workbench: Workbench) -> None:
    translations = tuple("Die Lampe ." if line else "" for line in LINES)
    html = workbench.explain(SentenceRequest("run", LINES, translations, 5))
    assert "sentence 2" in html
    assert html.count("1 back") == 2
    # The first document is not its context.
    assert "clock" not in html.replace("</span>", "").replace("\n", "")
    assert "Context" in html


def test_hostile_text_is_escaped_in_explanations(workbench: Workbench) -> None:
    lines = ("<script>alert(1)</script> & more.",)
    html = workbench.explain(SentenceRequest("run", lines, lines, 0))
    assert "<script" not in html
    assert "no context" in html


@pytest.mark.parametrize(
    ("line", "match"), [(3, "Line 4 is blank"), (1, "no translation yet"), (9, "as many lines")]
)
def test_what_cannot_be_explained_is_refused(workbench: Workbench, line: int, match: str) -> None:
    with pytest.raises(DataError, match=match):
        workbench.explain(SentenceRequest("run", LINES, ("",) * len(LINES), line))


@pytest.mark.parametrize(
    ("lines", "match"), [(("", " "), "no text"), (("a\nb",), "Line 1 holds a line break")]
)
def test_texts_without_sentences_are_refused(lines: tuple[str, ...], match: str) -> None:
    with pytest.raises(DataError, match=match):
        TextRequest("run", lines)


def test_a_sentence_that_is_too_long_is_named(workbench: Workbench) -> None:
    with pytest.raises(DataError, match="Line 2 and after: sentence 1 needs"):
        workbench.check(TextRequest("run", ("", "word " * 500)))


def test_unknown_runs_are_refused_with_a_suggestion(workbench: Workbench) -> None:
    with pytest.raises(DataError, match=r"There is no run `rum`\. Did you mean `run`"):
        workbench.check(TextRequest("rum", LINES))


def test_runs_of_the_same_name_are_told_apart(trained_run: Path) -> None:
    loaded = load_workbench([trained_run, trained_run])
    assert list(loaded.runs) == ["run", "run (2)"]
    assert str(trained_run.parent) not in str(loaded.describe())


def test_documents_are_what_blank_lines_separate() -> None:
    assert document_spans(["", "a", "b", " ", "", "c"]) == [(1, 3), (5, 6)]
    assert document_spans([]) == []


def test_a_model_that_reads_no_context_follows_too(served: ServedRun) -> None:
    translator = served.translator
    alone = DocumentTranslator(
        translator.model,
        translator.subwords,
        windows=WindowConfig(context=0, max_length=128),
        decode=translator.decode,
    )
    sentences = [line for line in LINES if line]
    found = list(alone.follow(sentences))
    assert found == [alone.translate(line) for line in sentences]
    assert found == list(translator.follow(sentences, with_context=False))
