"""Load a finished run and translate: the same alone and in company."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_documents
from iada.data.tokens.subwords import Subwords
from iada.decoding.translator import DocumentTranslator
from iada.decoding.wavefront import TranslationInput
from iada.errors import DataError, ModelError, RunError


@pytest.fixture(scope="module", params=["prefill", "huggingface"])
def translator(trained_run: Path, request: pytest.FixtureRequest) -> DocumentTranslator:
    """A translator in float64, whose sums do not depend on the size of the batch."""
    loaded = DocumentTranslator.load(trained_run)
    return DocumentTranslator(
        loaded.model.double(),
        loaded.subwords,
        windows=loaded.windows,
        decode=DecodeConfig(engine=request.param),
    )


@pytest.fixture(scope="module")
def documents(mini_corpus: Path) -> list[Document]:
    return [
        document
        for document in read_documents(mini_corpus / "test.en")
        if isinstance(document, Document)
    ]


def test_documents_are_translated_alike_alone_and_together(
    translator: DocumentTranslator, documents: list[Document]
) -> None:
    documents = documents[:4]
    together = translator.translate(documents)
    assert together == [translator.translate([document])[0] for document in documents]
    assert [len(d) for d in together] == [len(d) for d in documents]
    assert [d.name for d in together] == [d.name for d in documents]
    assert len({sentence for d in together for sentence in d.sentences}) > 3


def test_a_sentence_is_unaffected_by_what_follows(
    translator: DocumentTranslator, documents: list[Document]
) -> None:
    document = documents[0]
    whole = translator.translate([document])[0].sentences
    for stop in (1, 4):
        start = Document("start", document.sentences[:stop])
        assert translator.translate([start])[0].sentences == whole[:stop]


def test_the_run_tells_how_to_search_unless_told_otherwise(trained_run: Path) -> None:
    assert DocumentTranslator.load(trained_run).decode == DecodeConfig()
    greedy = DecodeConfig(beam=1)
    assert DocumentTranslator.load(trained_run, decode=greedy).decode == greedy
    named = DocumentTranslator.load(trained_run, engine="huggingface", decode=greedy)
    assert named.engine.name == "huggingface"
    assert named.decode == DecodeConfig(beam=1, engine="huggingface")


def test_the_number_of_open_documents_does_not_show(
    translator: DocumentTranslator, documents: list[Document]
) -> None:
    # One more than may be open, so that a place becomes free and is taken.
    documents = documents[:3]
    expected = translator.translate(documents)
    for slots in (1, 2):
        few = DocumentTranslator(
            translator.model,
            translator.subwords,
            windows=translator.windows,
            decode=replace(translator.decode, open_documents=slots),
        )
        assert few.translate(documents) == expected


def test_odd_documents_keep_their_shape(translator: DocumentTranslator) -> None:
    documents = [
        Document("empty", ()),
        Document("nothing", ("", "")),
        Document("one word", ("Yes",)),
        Document("signs", ("…", "\u2028", "🙂")),
    ]
    translated = translator.translate(documents)
    assert [len(d) for d in translated] == [0, 2, 1, 3]
    assert translated[1].sentences == ("", "")


def test_a_sentence_too_long_for_the_model_is_refused_before_anything_is_done(
    translator: DocumentTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(translator.engine), "search", None)
    monkeypatch.setattr(translator, "decode", replace(translator.decode, open_documents=1))
    long = Document("long", ("Good morning .", "word " * 200))
    # Far behind what is read ahead.
    documents = [Document(str(number), ("a",)) for number in range(20)]
    with pytest.raises(DataError, match=r"long: sentence 2 needs \d+ tokens .* at most 128"):
        translator.translate([*documents, long])


def test_gold_context_is_what_the_sentence_before_should_have_been(
    trained_run: Path, documents: list[Document]
) -> None:
    gold = DecodeConfig(beam=1, target_context="gold")
    translator = DocumentTranslator.load(trained_run, decode=gold)
    own = DocumentTranslator.load(trained_run, decode=DecodeConfig(beam=1)).translate(documents)
    # With its own translations as the reference nothing changes, up to rounding.
    again = translator.translate(documents, own)
    pairs = [
        (left, right)
        for one, other in zip(own, again, strict=True)
        for left, right in zip(one.sentences, other.sentences, strict=True)
    ]
    assert sum(left == right for left, right in pairs) >= 0.99 * len(pairs)
    with pytest.raises(DataError, match="needs a reference"):
        translator.translate(documents)


def test_a_sentence_level_model_ignores_the_order_of_sentences(trained_run: Path) -> None:
    loaded = DocumentTranslator.load(trained_run)
    translator = DocumentTranslator(
        loaded.model.double(),
        loaded.subwords,
        windows=WindowConfig(context=0, max_length=128),
        decode=DecodeConfig(),
    )
    sentences = ("Good morning .", "It is here .", "Where is the car ?")
    forth, back = translator.translate(
        [Document("forth", sentences), Document("back", sentences[::-1])]
    )
    assert forth.sentences == back.sentences[::-1]


def test_documents_that_can_be_read_only_once_are_refused(translator: DocumentTranslator) -> None:
    inputs = [TranslationInput(Document("d", ("a",)))]
    assert len(list(translator.stream(inputs))) == 1
    with pytest.raises(TypeError, match="give a list, not an iterator"):
        list(translator.stream(iter(inputs)))


def test_an_unknown_engine_is_refused(trained_run: Path) -> None:
    with pytest.raises(ModelError, match="There is no engine `fast`"):
        DocumentTranslator.load(trained_run, engine="fast")  # type: ignore[arg-type]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no config\.yaml"):
        DocumentTranslator.load(tmp_path)


@pytest.mark.parametrize("weights", [None, b"abc"])
def test_a_model_without_readable_weights_is_refused(
    trained_run: Path, tmp_path: Path, weights: bytes | None
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    path = run / "model" / "model.safetensors"
    path.unlink()
    if weights is not None:
        path.write_bytes(weights)
    with pytest.raises(ModelError, match="model cannot be read: "):
        DocumentTranslator.load(run)


@pytest.mark.parametrize("kind", ["strange", "marian"])
def test_code_beside_a_model_is_never_run_and_nobody_is_asked(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "run")
    trap = tmp_path / "sprung"
    code = f"open({str(trap)!r}, 'w')\nclass Config: pass\nclass Model: pass\n"
    (folder / "model" / "code.py").write_text(code, encoding="utf-8")
    file = folder / "model" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"model_type": kind}
    config["auto_map"] = {"AutoConfig": "code.Config", "AutoModelForSeq2SeqLM": "code.Model"}
    file.write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda question="": pytest.fail(question))
    if kind == "strange":
        with pytest.raises(ModelError, match="model cannot be read"):
            DocumentTranslator.load(folder)
    else:
        DocumentTranslator.load(folder)
    assert not trap.exists()


def test_an_unfinished_run_is_refused(trained_run: Path, tmp_path: Path) -> None:
    shutil.copy(trained_run / "config.yaml", tmp_path)
    with pytest.raises(RunError, match=r"holds no finished model.*--resume"):
        DocumentTranslator.load(tmp_path)


def test_a_text_or_a_list_of_sentences_is_a_document_too(translator: DocumentTranslator) -> None:
    texts = ("Good morning .", "Where is the book ?", "It is here .")
    first, second = Document("a", texts[:2]), Document("b", texts[2:])
    expected = [list(d.sentences) for d in translator.translate([first, second])]
    assert translator.translate(list(texts[:2])) == expected[0]
    assert translator.translate(texts[2:]) == expected[1]
    text = f"\n{texts[0]}\n{texts[1]}\n \n\n{texts[2]}\n"
    found = translator.translate(text)
    assert found == "\n".join(["", *expected[0], " ", "", *expected[1], ""])
    assert translator.translate("") == ""
    assert translator.translate([]) == []
    # The second sentence has the first one as its context.
    assert len(expected[0]) == 2


def test_an_ensemble_scores_by_the_mean_of_the_probabilities(
    trained_run: Path, documents: list[Document]
) -> None:
    pairs = [ParallelDocument(one, one) for one in documents[:3]]
    alone = DocumentTranslator.load(trained_run)
    assert DocumentTranslator.load(trained_run, ensemble=[trained_run]).score(
        pairs
    ) == pytest.approx(alone.score(pairs), abs=1e-4)
    other = DocumentTranslator.load(trained_run).model
    with torch.no_grad():
        other.final_logits_bias.normal_()
    both = DocumentTranslator(
        alone.model,
        alone.subwords,
        windows=alone.windows,
        decode=alone.decode,
        ensemble=[other],
    )
    changed = DocumentTranslator(
        other, alone.subwords, windows=alone.windows, decode=alone.decode
    ).score(pairs)
    for mean, one, two in zip(both.score(pairs), alone.score(pairs), changed, strict=True):
        # An arithmetic mean is larger than the geometric one, by log 2 a token at most.
        assert mean > (one + two) / 2
        assert mean not in (one, two)


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("windows", {"context": 1}, "has `windows.context: 1`, .* `3`"),
        ("data", {"target_language": "fr"}, "has `data.target_language: fr`, .* `de`"),
        ("model", {"architecture": "gtrans"}, "frames sentences otherwise"),
    ],
)
def test_runs_that_read_something_else_are_no_ensemble(
    trained_run: Path, tmp_path: Path, section: str, values: dict[str, object], message: str
) -> None:
    other = shutil.copytree(trained_run, tmp_path / "other")
    config = yaml.safe_load((other / "config.yaml").read_text(encoding="utf-8"))
    config[section] |= values
    (other / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        DocumentTranslator.load(trained_run, ensemble=[other])


def test_runs_with_other_vocabularies_are_no_ensemble(
    trained_run: Path, tmp_path: Path, subwords: Subwords
) -> None:
    other = shutil.copytree(trained_run, tmp_path / "other")
    subwords.save(other / "model")
    with pytest.raises(ModelError, match=r"other has another vocabulary .* pieces\)"):
        DocumentTranslator.load(trained_run, ensemble=[other])
