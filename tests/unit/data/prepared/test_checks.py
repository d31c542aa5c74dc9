"""Checks of a whole corpus: lengths, copies, and sentences that training shares with the rest."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from iada.config.data import DataConfig, Split
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.findings import Findings
from iada.data.formats.readers import iterate_documents
from iada.data.prepared.checks import CorpusChecks

LONG = "A sentence of some length."


def document(number: int, *pairs: tuple[str, str], file: str = "train") -> ParallelDocument:
    source, target = zip(*pairs, strict=True)
    return ParallelDocument(
        Document(f"{file}.en:{number}", source), Document(f"{file}.de:{number}", target)
    )


def check(*tags: str, **splits: list[ParallelDocument]) -> list[dict[str, Any]]:
    """Return the findings of splits, given in the order in which they are watched."""
    log = io.StringIO()
    checks = CorpusChecks(Findings(log), tags)
    names: dict[str, Split] = {"dev": "dev", "test": "test", "train": "train"}
    for name, documents in splits.items():
        assert list(checks.watch(names[name], iter(documents))) == documents
    checks.finish()
    return [json.loads(line) for line in log.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("source", "target", "is_odd"),
    [
        ("a" * 10, "b" * 70, False),
        ("a" * 10, "b" * 71, True),
        ("a" * 71, "b" * 10, True),
        ("a" * 100, "b" * 340, False),
        ("a" * 100, "b" * 341, True),
        # 3 bytes each: as long as 90 letters.
        ("中" * 30, "b" * 300, False),
        # Reported by the readers.
        ("", "b" * 500, False),
        ("a" * 500, "", False),
    ],
)
def test_a_side_that_is_much_longer_is_reported(source: str, target: str, is_odd: bool) -> None:
    found = check(train=[document(4, ("x", "X"), (source, target))])
    assert [f["kind"] for f in found] == ["length_ratio"] * is_odd
    if is_odd:
        assert found[0]["file"] == "train.en"
        assert found[0]["severity"] == "warning"
        assert "sentence 2 of document train.en:4 has" in found[0]["message"]


def test_copies_of_documents_are_reported_within_and_across_splits() -> None:
    one, two = ("one", "eins"), ("two", "zwei")
    found = check(
        dev=[document(1, one, file="dev"), document(2, two, file="dev")],
        train=[
            document(1, one, two),
            document(2, two),
            document(3, one, two),
            # The same source with another translation is no copy.
            document(4, ("one", "Eins")),
            document(5, one, two),
        ],
    )
    assert {f["kind"] for f in found} == {"duplicate_document"}
    assert [(f["file"], f["message"]) for f in found] == [
        ("train.en", "document 2 of train is a copy of document 2 of dev."),
        ("train.en", "document 3 of train is a copy of document 1 of train."),
        ("train.en", "document 5 of train is a copy of document 1 of train."),
    ]


def test_sentences_that_training_shares_are_reported() -> None:
    found = check(
        dev=[document(1, (LONG, "x"), ("Hello.", "x"), file="dev")],
        test=[document(1, ("Another long sentence.", "x"), (LONG, "y"), file="test")],
        train=[
            document(1, ("Hello.", "a"), (LONG, "b")),
            document(2, ("Another long sentence.", "c"), (LONG + "!", "d")),
        ],
    )
    assert [(f["kind"], f["message"]) for f in found] == [
        ("shared_sentence", "sentence 2 of document train.en:1 is also in dev."),
        ("shared_sentence", "sentence 1 of document train.en:2 is also in test."),
    ]


@pytest.mark.parametrize(("length", "count"), [(19, 0), (20, 1)])
def test_short_sentences_are_shared_by_chance(length: int, count: int) -> None:
    text = "s" * length
    found = check(dev=[document(1, (text, "x"), file="dev")], train=[document(1, (text, "y"))])
    assert len(found) == count


def test_training_comes_last() -> None:
    checks = CorpusChecks(Findings())
    list(checks.watch("train", [document(1, ("a", "A"))]))
    with pytest.raises(ValueError, match="before `train`"):
        list(checks.watch("dev", [document(1, ("a", "A"))]))


def test_a_corpus_without_documents_has_no_copies() -> None:
    assert check(dev=[], train=[]) == []


def test_checks_run_while_files_are_read(tmp_path: Path) -> None:
    for name, text in {
        "dev.en": f"{LONG}\n",
        "dev.de": "Satz.\n",
        "train.en": f"a\n\n{LONG}\n",
        "train.de": "A\n\nSatz.\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    findings = Findings()
    checks = CorpusChecks(findings)
    data = DataConfig(folder=tmp_path)
    for split in ("dev", "train"):
        for _ in checks.watch(split, iterate_documents(data, split, findings)):
            pass
    checks.finish()
    assert findings.counts == {"duplicate_document": 1, "shared_sentence": 1}
    findings.verify_tallies()


def test_the_shared_sentences_of_europarl_are_found(real_data: Path) -> None:
    findings = Findings()
    checks = CorpusChecks(findings)
    data = DataConfig(folder=real_data / "europarl")
    splits: tuple[Split, ...] = ("dev", "test", "train")
    for split in splits:
        for _ in checks.watch(split, iterate_documents(data, split, findings)):
            pass
    lines = {
        split: (real_data / "europarl" / f"{split}.en").read_text(encoding="utf-8").split("\n")
        for split in splits
    }
    held_out = {line for split in ("dev", "test") for line in lines[split] if len(line) >= 20}
    assert findings.counts["shared_sentence"] == sum(line in held_out for line in lines["train"])
    assert findings.errors == 0
    # 202,284 sentences of training, 3,587 and 5,134 of the others.
    assert findings.source.kept == 211_005


@pytest.mark.parametrize(
    ("source", "target", "tags", "tag"),
    [
        ("<bt> a dog", "ein Hund", (), "<bt>"),
        ("<bt> a dog", "ein Hund", ("<ft>",), "<bt>"),
        ("<bt> a dog", "ein Hund", ("<bt>",), None),
        # A tag alone, glued to a word, inside the sentence or on the target side is text for sure.
        ("<bt>", "ein", (), None),
        ("<b>a dog</b>", "ein Hund", (), None),
        ("a <bt> dog", "ein Hund", (), None),
        ("a dog", "<bt> ein Hund", (), None),
        ("< 3 dogs", "< 3 Hunde", (), None),
    ],
)
def test_what_looks_like_a_tag_but_is_not_named_is_reported(
    source: str, target: str, tags: tuple[str, ...], tag: str | None
) -> None:
    found = check(*tags, train=[document(4, ("x", "X"), (source, target))])
    assert [f["kind"] for f in found] == ["unnamed_tag"] * (tag is not None)
    if tag is not None:
        assert f"sentence 2 of document train.en:4 begins with {tag}," in found[0]["message"]
        assert found[0]["severity"] == "warning"


PROSE = "It rained. We stayed at home. Then we left."
ENGLISH = (
    "The weather was bad yesterday, so we stayed at home and read the books that she had given us."
)
GERMAN = "Das Wetter war gestern schlecht, also blieben wir zu Hause und lasen unsere neuen Bücher."


def test_paragraphs_among_sentences_are_reported_once() -> None:
    found = check(train=[document(1, *[(PROSE, "Gut.")] * 3, *[("Good.", "Gut.")] * 7)])
    assert [one["kind"] for one in found] == ["unsplit_text"]
    assert "3 of 10 sentences of train look like paragraphs" in found[0]["message"]
    assert check(train=[document(1, (PROSE, "Gut."), *[("Good.", "Gut.")] * 9)]) == []


def languages(source: str, target: str, *, codes: tuple[str, str] = ("en", "de")) -> list[str]:
    log = io.StringIO()
    checks = CorpusChecks(Findings(log), languages=codes)
    list(checks.watch("train", [document(1, (source, target))]))
    checks.finish()
    return [json.loads(line)["message"] for line in log.getvalue().splitlines()]


def test_swapped_and_wrong_languages_are_noticed() -> None:
    assert languages(ENGLISH, GERMAN) == []
    assert languages(GERMAN, ENGLISH) == [
        "the source side of train should be `en` but looks like `de`. Are the sides swapped?",
        "the target side of train should be `de` but looks like `en`. Are the sides swapped?",
    ]
    french = "Hier il faisait mauvais temps, alors nous sommes restés à la maison et avons lu."
    assert languages(ENGLISH, french) == [
        "the target side of train should be `de` but looks like `fr`. Is it the right file?"
    ]


def test_what_the_check_cannot_know_it_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    # Too little text, and codes that are no languages.
    assert languages("Gut.", "Good.") == []
    assert languages(GERMAN, ENGLISH, codes=("src", "tgt")) == []
    assert languages(ENGLISH, GERMAN, codes=("en_GB", "de-AT")) == []
    monkeypatch.setitem(sys.modules, "py3langid", None)
    assert languages(GERMAN, ENGLISH) == []
