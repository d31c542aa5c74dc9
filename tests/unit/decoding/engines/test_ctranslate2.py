"""An exported model says what the original says, and knows where it came from."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.data.formats.lines import read_lines
from iada.decoding import export
from iada.decoding.engines.ctranslate2 import (
    EXPORT_FILE,
    CTranslate2Engine,
    exported_fingerprint,
)
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Request, model_fingerprint
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.export import (
    EngineComparison,
    compare_engines,
    export_and_check,
    export_model,
    held_out_requests,
)
from iada.decoding.translator import DocumentTranslator
from iada.errors import ModelError
from iada.runs.folder import RunFolder

GREEDY = DecodeConfig(beam=1)


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture(scope="module")
def exported(translator: DocumentTranslator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "float32"
    fingerprint = model_fingerprint(translator.model)
    return export_model(
        translator.model,
        translator.subwords,
        folder,
        quantization="float32",
        fingerprint=fingerprint,
    )


@pytest.fixture(scope="module")
def requests(translator: DocumentTranslator, trained_run: Path) -> list[Request]:
    return held_out_requests(translator, RunFolder(trained_run).config().data, 60)


def test_tags_are_never_said(
    translator: DocumentTranslator,
    exported: Path,
    requests: list[Request],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, GREEDY)

    def said() -> Counter[int]:
        return Counter(i for found in engine.search(requests[:8]) for i in found[0].tokens)

    ((usual, _),) = said().most_common(1)
    (piece,) = translator.subwords.pieces([usual])
    monkeypatch.setattr(translator.subwords, "tags", {piece: usual})
    assert said()[usual] == 0


def test_all_engines_agree_greedily(
    translator: DocumentTranslator, exported: Path, requests: list[Request]
) -> None:
    special = translator.subwords.special
    reference = HuggingFaceEngine(translator.model, special, GREEDY)
    others = [
        CTranslate2Engine(exported, translator.subwords, GREEDY),
        PrefillEngine(translator.model, special, GREEDY),
    ]
    assert len(requests) > 20
    for engine in others:
        assert compare_engines(reference, engine, requests, 4096).share >= 0.99


def test_prefixes_limits_and_rules_are_kept(translator: DocumentTranslator, exported: Path) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, GREEDY)
    reference = HuggingFaceEngine(translator.model, translator.subwords.special, GREEDY)
    # Some of these reach their limit, and the limits differ within the batch.
    requests = [
        Request((300, 301, 302, 2), prefix, most, least)
        for prefix in ((1,), (1, 310, 4), (1, 320, 321, 322, 4))
        for most, least in ((1, 0), (2, 0), (9, 0), (9, 9), (12, 10))
    ]
    found, expected = engine.search(requests), reference.search(requests)
    assert [f[0].tokens for f in found] == [e[0].tokens for e in expected]
    assert {len(f[0].tokens) for f in found} >= {1, 2, 9}


def test_another_end_token_is_refused(translator: DocumentTranslator, exported: Path) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, GREEDY)
    special = translator.subwords.special
    usual = Request((300, 301, 2), (1,), 5)
    assert engine.search([replace(usual, end=special.eos)]) == engine.search([usual])
    with pytest.raises(ModelError, match=r"must end with `<sep>`\. Choose `prefill`"):
        engine.search([usual, replace(usual, end=special.sep)])


def test_a_limit_is_that_of_the_request_and_not_of_its_batch(
    translator: DocumentTranslator, exported: Path, requests: list[Request]
) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, DecodeConfig(beam=5))
    # About as long as the translations, so that limits cut some beams and spare others.
    limited = [replace(request, max_new=2 + number % 12) for number, request in enumerate(requests)]
    together = engine.search(limited)
    for request, found in zip(limited, together, strict=True):
        assert engine.search([request])[0][0].tokens == found[0].tokens


def test_a_search_that_reached_a_lower_limit_is_repeated_with_its_own(
    translator: DocumentTranslator, exported: Path
) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, DecodeConfig(beam=2))
    word = translator.subwords.pieces([300])[0]
    limits = []

    def search(sources: list[list[str]], *_: Any, **settings: Any) -> list[SimpleNamespace]:
        limits.append(settings["max_decoding_length"])
        # A beam that would go on is cut and comes first; later it is worse than others.
        hypotheses = [[word] * 8, [word]] if limits[-1] == 8 else [[word], [word] * 2]
        return [SimpleNamespace(hypotheses=hypotheses, scores=[-0.1, -9.0]) for _ in sources]

    engine.translator = SimpleNamespace(translate_batch=search)
    found = engine.search([Request((300, 2), (1,), 9), Request((300, 2), (1,), 8)])
    assert limits == [8, 9]
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [1, 8]


def test_a_call_has_no_limit_far_below_those_of_its_requests(
    translator: DocumentTranslator, exported: Path
) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, DecodeConfig(beam=1))
    calls = []

    def search(sources: list[list[str]], *_: Any, **settings: Any) -> list[SimpleNamespace]:
        calls.append((len(sources), settings["max_decoding_length"]))
        return [SimpleNamespace(hypotheses=[[]], scores=[-0.1]) for _ in sources]

    engine.translator = SimpleNamespace(translate_batch=search)
    engine.search([Request((300, 2), (1,), most) for most in (100, 50, 124, 55, 126)])
    assert calls == [(2, 50), (2, 100), (1, 126)]


@pytest.fixture(scope="module")
def in_int8(translator: DocumentTranslator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "int8"
    return export_model(
        translator.model, translator.subwords, folder, quantization="int8", fingerprint="x"
    )


def test_a_batch_changes_nothing_in_int8(
    translator: DocumentTranslator, in_int8: Path, requests: list[Request]
) -> None:
    config = DecodeConfig(beam=5, precision="int8")
    engine = CTranslate2Engine(in_int8, translator.subwords, config)
    together = engine.search(requests)
    # Scores show what changes words only in a few of a thousand sentences.
    assert together == [engine.search([request])[0] for request in requests]


@pytest.mark.parametrize(
    ("precision", "exact", "size"), [("int8", True, 1), ("int8", False, 0), ("float32", True, 0)]
)
def test_only_int8_is_searched_one_by_one(
    translator: DocumentTranslator,
    exported: Path,
    in_int8: Path,
    precision: Any,
    exact: bool,
    size: int,
) -> None:
    config = DecodeConfig(beam=1, precision=precision, exact_batches=exact)
    folder = in_int8 if precision == "int8" else exported
    engine = CTranslate2Engine(folder, translator.subwords, config)
    sizes = []

    def search(sources: list[list[str]], *_: Any, **settings: Any) -> list[SimpleNamespace]:
        sizes.append(settings["max_batch_size"])
        return [SimpleNamespace(hypotheses=[[]], scores=[-0.1]) for _ in sources]

    engine.translator = SimpleNamespace(translate_batch=search)
    engine.search([Request((300, 2), (1,), 9)])
    assert sizes == [size]


def test_separators_are_said_only_where_they_are_allowed(
    translator: DocumentTranslator, tmp_path: Path
) -> None:
    sep = translator.subwords.special.sep
    changed = _with_bias(translator, sep, 30.0)
    folder = export_model(
        changed, translator.subwords, tmp_path / "x", quantization="float32", fingerprint="x"
    )
    engine = CTranslate2Engine(folder, translator.subwords, GREEDY)
    request = Request((300, 301, 2), (1,), 5)
    silent, separated = engine.search([request, replace(request, may_separate=True)])
    assert sep not in silent[0].tokens
    assert set(separated[0].tokens) == {sep}


def _with_bias(translator: DocumentTranslator, token: int, bias: float) -> Any:
    """Return a copy of the model that likes a token."""
    import copy

    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        model.final_logits_bias[0, token] = bias
    return model


@pytest.mark.parametrize("length_penalty", [0.6, 1.0, 1.5])
def test_the_prefix_does_not_count_in_the_score(
    translator: DocumentTranslator,
    exported: Path,
    requests: list[Request],
    length_penalty: float,
) -> None:
    config = DecodeConfig(beam=5, length_penalty=length_penalty, n_best=5)
    engine = CTranslate2Engine(exported, translator.subwords, config)
    eos = translator.subwords.special.eos
    compared = 0
    for request, found in zip(requests[:12], engine.search(requests[:12]), strict=True):
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in found:
            said = (*hypothesis.tokens, eos)
            if len(said) > request.max_new:
                continue
            with torch.inference_mode():
                logits = translator.model(
                    input_ids=torch.tensor([request.source]),
                    decoder_input_ids=torch.tensor([request.prefix + hypothesis.tokens]),
                ).logits[0, len(request.prefix) - 1 :]
            total = logits.log_softmax(dim=1).gather(1, torch.tensor(said)[:, None]).sum()
            # It leaves forbidden tokens out of the probabilities, which are small here.
            expected = float(total) / len(said) ** length_penalty
            assert hypothesis.score == pytest.approx(expected, rel=0.01)
            compared += 1
    assert compared > 20


def test_long_inputs_are_not_cut(translator: DocumentTranslator, exported: Path) -> None:
    engine = CTranslate2Engine(exported, translator.subwords, GREEDY)
    reference = HuggingFaceEngine(translator.model, translator.subwords.special, GREEDY)
    words = tuple(300 + i % 100 for i in range(150))
    requests = [Request((*words[:cut], 2), (1,), 6) for cut in (100, 150)]
    found = [f[0].tokens for f in engine.search(requests)]
    assert found == [f[0].tokens for f in reference.search(requests)]


def test_an_export_tells_its_model(translator: DocumentTranslator, exported: Path) -> None:
    assert exported_fingerprint(exported) == model_fingerprint(translator.model)
    assert exported_fingerprint(exported / "missing") is None
    assert (exported / "tokenizer.json").is_file()


def test_a_fingerprint_sees_every_weight(translator: DocumentTranslator) -> None:
    before = model_fingerprint(translator.model)
    assert model_fingerprint(_with_bias(translator, 7, 1e-3)) != before
    assert model_fingerprint(translator.model) == before


def test_an_unknown_folder_is_not_overwritten(
    translator: DocumentTranslator, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelError, match="exists and is not an export"):
        export_model(
            translator.model,
            translator.subwords,
            tmp_path / "mine",
            quantization="float32",
            fingerprint="x",
        )


def test_other_architectures_are_refused(translator: DocumentTranslator, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="SimpleNamespace cannot be exported"):
        export_model(
            SimpleNamespace(config=SimpleNamespace(is_encoder_decoder=True)),
            translator.subwords,
            tmp_path / "x",
            quantization="float32",
            fingerprint="x",
        )


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_an_export_ends_with_a_comparison(
    translator: DocumentTranslator, trained_run: Path, tmp_path: Path, quantization: Any
) -> None:
    data = RunFolder(trained_run).config().data
    folder = tmp_path / "new" / quantization
    before = model_fingerprint(translator.model)
    found = export_and_check(
        translator, data, folder, quantization=quantization, windows=30, allow=False
    )
    # The converter rounds in place, which must not reach the model itself.
    assert model_fingerprint(translator.model) == before
    assert found.total == 30
    if quantization == "float32":
        assert found.share >= 0.99
    told = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    assert told["agreement"] == {"equal": found.equal, "total": 30}
    assert told["quantization"] == quantization


@pytest.mark.parametrize("allow", [False, True])
def test_an_export_that_says_something_else_is_not_kept_unasked(
    translator: DocumentTranslator,
    trained_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    allow: bool,
) -> None:
    monkeypatch.setattr(export, "compare_engines", lambda *_: EngineComparison(97, 100))
    data = RunFolder(trained_run).config().data
    folder = tmp_path / "x"
    arguments: dict[str, Any] = {"quantization": "float32", "windows": 2, "allow": allow}
    if allow:
        export_and_check(translator, data, folder, **arguments)
        assert "only 97 of 100 greedy translations" in caplog.text
    else:
        with pytest.raises(ModelError, match=r"only 97 of 100 .*less than 99%.*`--allow`"):
            export_and_check(translator, data, folder, **arguments)
    assert folder.exists() == allow


def test_documents_are_translated_alike_alone_and_together(
    trained_run: Path, mini_corpus: Path, exported: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    decode = DecodeConfig(engine="ctranslate2", exported=exported, beam=1)
    translator = DocumentTranslator.load(run, decode=decode)
    assert translator.engine.name == "ctranslate2"
    lines = read_lines(mini_corpus / "test.en")
    documents = [
        Document(f"d{number}", tuple(lines[start : start + 4]))
        for number, start in enumerate(range(0, 24, 4))
    ]
    together = [s for d in translator.translate(documents) for s in d.sentences]
    alone = [s for d in documents for s in translator.translate([d])[0].sentences]
    assert sum(map(str.__eq__, together, alone)) >= 0.99 * len(alone)
