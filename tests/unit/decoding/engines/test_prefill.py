"""Our own search equals `generate`, whatever shares its batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import MarianMTModel

from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.decoding.engines import ENGINES
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Request
from iada.decoding.engines.prefill import engine as prefill
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.engines.prefill.int8 import is_available
from iada.decoding.export import held_out_requests
from iada.decoding.translator import DocumentTranslator
from iada.models.build import build_model
from iada.runs.folder import RunFolder

VOCABULARY = 1500


def random_model(special: SpecialIds, seed: int, *, vocabulary: int = VOCABULARY) -> MarianMTModel:
    """Two layers in float64 that end now and then."""
    torch.manual_seed(seed)
    config = ModelConfig(
        dim=16, feed_forward=32, heads=2, encoder_layers=2, decoder_layers=2, max_positions=128
    )
    model = build_model(config, vocabulary_size=vocabulary, special=special).double()
    with torch.no_grad():
        model.model.shared.weight.normal_(std=0.3)
        model.final_logits_bias.normal_(std=0.3)
        model.final_logits_bias[0, special.eos] += 3
    return model


def drawn_requests(seed: int, count: int, vocabulary: int = VOCABULARY) -> list[Request]:
    """Ragged sources and prefixes, some without a prefix, and ragged limits."""
    draw = Random(seed)

    def tokens(length: int) -> tuple[int, ...]:
        return tuple(draw.randrange(6, vocabulary) for _ in range(length))

    return [
        Request(
            (*tokens(draw.randint(1, 30)), 2),
            (1, *tokens(draw.choice([0, 0, 5, 20]))),
            draw.randint(1, 30),
        )
        for _ in range(count)
    ]


def assert_alike(
    one: PrefillEngine, other: HuggingFaceEngine, requests: Sequence[Request]
) -> list[int]:
    """Compare tokens and scores of all hypotheses; return the lengths of the best."""
    lengths = []
    for left, right in zip(one.search(requests), other.search(requests), strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-4)
        lengths.append(len(left[0].tokens))
    return lengths


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [0.6, 1.0, 1.5])
def test_it_finds_what_generate_finds(
    special: SpecialIds, beam: int, length_penalty: float
) -> None:
    lengths = []
    for seed in range(3):
        model = random_model(special, seed)
        config = DecodeConfig(beam=beam, length_penalty=length_penalty, n_best=min(beam, 3))
        engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
        lengths += assert_alike(*engines, drawn_requests(seed, 9))
    # Short and long ones, so that sentences leave the batch at different steps.
    assert min(lengths) <= 3
    assert max(lengths) >= 16


@pytest.mark.parametrize("vocabulary", [40, 299])
def test_a_small_vocabulary_needs_no_blocks(special: SpecialIds, vocabulary: int) -> None:
    model = random_model(special, 1, vocabulary=vocabulary)
    config = DecodeConfig(beam=5)
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    assert_alike(*engines, drawn_requests(1, 5, vocabulary))


def test_other_activations_and_unscaled_embeddings_are_respected(
    tiny_model: Callable[..., Any], special: SpecialIds
) -> None:
    """The stock defaults are GELU and no scaling."""
    for seed in range(4):
        model = tiny_model("marian", seed=seed).eval()
        config = DecodeConfig(beam=3)
        engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
        assert_alike(*engines, drawn_requests(seed, 4, 40))


def test_a_sentence_that_is_done_may_stand_at_the_last_position(special: SpecialIds) -> None:
    """The model has 128 positions; the first sentence fills them before the second ends."""
    search = PrefillEngine(random_model(special, 4), special, DecodeConfig(beam=2))
    full = Request((7, 8, 2), (1, *range(10, 136)), 1)
    longer = Request((9, 2), (1,), 20, min_new=20)
    together = search.search([full, longer])
    assert together == [*search.search([full]), *search.search([longer])]


@pytest.mark.parametrize("beam", [1, 5])
def test_a_batch_gives_what_each_sentence_alone_gives(special: SpecialIds, beam: int) -> None:
    search = PrefillEngine(random_model(special, 4), special, DecodeConfig(beam=beam))
    requests = drawn_requests(4, 12)
    together = search.search(requests)
    for request, found in zip(requests, together, strict=True):
        assert search.search([request])[0][0].tokens == found[0].tokens
    backwards = search.search(requests[::-1])[::-1]
    assert [f[0].tokens for f in backwards] == [f[0].tokens for f in together]


@pytest.mark.skipif(not is_available(), reason="needs PyTorch's integer kernels")
def test_in_integers_a_batch_gives_the_very_numbers_of_each_sentence_alone(
    special: SpecialIds,
) -> None:
    model = random_model(special, 6).float()
    search = PrefillEngine(model, special, DecodeConfig(beam=5, n_best=5, precision="int8"))
    requests = drawn_requests(6, 40)
    together = search.search(requests)
    assert together == [found for request in requests for found in search.search([request])]


def test_how_the_work_is_cut_does_not_matter(
    special: SpecialIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = PrefillEngine(random_model(special, 5), special, DecodeConfig(beam=4))
    requests = drawn_requests(5, 10)
    expected = search.search(requests)
    for name, values in (("_GROUP_TOKENS", (1, 10**6)), ("_LOGIT_ROWS", (1, 7))):
        for value in values:
            monkeypatch.setattr(prefill, name, value)
            found = search.search(requests)
            assert [f[0].tokens for f in found] == [f[0].tokens for f in expected]
            monkeypatch.undo()
    for interval in (1, 1000):
        monkeypatch.setattr(prefill, "_TIDY_INTERVAL", interval)
        found = search.search(requests)
        assert [f[0].tokens for f in found] == [f[0].tokens for f in expected]


@pytest.mark.parametrize("beam", [1, 5])
def test_limits_are_kept_row_by_row(special: SpecialIds, beam: int) -> None:
    model = random_model(special, 6)
    config = DecodeConfig(beam=beam)
    requests = [
        Request((10, 11, 12, 2), (1, 20, 4), most, least)
        for most, least in ((1, 0), (3, 3), (9, 7), (20, 20), (0, 0))
    ]
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    lengths = assert_alike(*engines, requests)
    assert all(r.min_new <= n <= r.max_new for n, r in zip(lengths, requests, strict=True))


@pytest.mark.parametrize("beam", [1, 5])
def test_a_translation_has_at_least_its_least_length(special: SpecialIds, beam: int) -> None:
    model = random_model(special, 6)
    with torch.no_grad():
        # It would end at once, and does so as soon as it may.
        model.final_logits_bias[0, special.eos] = 50.0
    config = DecodeConfig(beam=beam)
    requests = [Request((10, 11, 12, 2), (1, 20, 4), 12, least) for least in (0, 1, 2, 7)]
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    assert assert_alike(*engines, requests) == [0, 1, 2, 7]


@pytest.mark.parametrize("beam", [1, 5])
def test_special_tokens_are_never_said(special: SpecialIds, beam: int) -> None:
    model = random_model(special, 7)
    with torch.no_grad():
        model.final_logits_bias[0, list(special.all)] = 50.0
        model.final_logits_bias[0, special.eos] = -50.0
    search = PrefillEngine(model, special, DecodeConfig(beam=beam))
    requests = [replace(r, may_separate=i == 1) for i, r in enumerate(drawn_requests(7, 4))]
    for number, (found, request) in enumerate(zip(search.search(requests), requests, strict=True)):
        said = set(found[0].tokens)
        assert len(found[0].tokens) == request.max_new
        # `<sep>` is the exception, where it is allowed.
        assert said & {*special.all} == ({special.sep} if number == 1 else set())


def test_separators_are_allowed_as_in_generate(special: SpecialIds) -> None:
    model = random_model(special, 8)
    with torch.no_grad():
        model.final_logits_bias[0, special.sep] += 4
    config = DecodeConfig(beam=3)
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    requests = [replace(r, may_separate=i % 2 == 0) for i, r in enumerate(drawn_requests(8, 6))]
    assert_alike(*engines, requests)
    assert any(special.sep in found[0].tokens for found in engines[0].search(requests))


@pytest.mark.parametrize("beam", [1, 5])
def test_a_trained_model_says_the_same(trained_run: Path, beam: int) -> None:
    decode = DecodeConfig(beam=beam)
    translator = DocumentTranslator.load(trained_run, decode=decode)
    data = RunFolder(trained_run).config().data
    requests = held_out_requests(translator, data, 40)
    special = translator.subwords.special
    model = translator.model.double()
    engines = PrefillEngine(model, special, decode), HuggingFaceEngine(model, special, decode)
    assert_alike(*engines, requests)


@pytest.mark.skipif(not is_available(), reason="needs PyTorch with oneDNN")
def test_integers_stay_close_on_a_trained_model(
    trained_run: Path, record_property: Callable[[str, object], None]
) -> None:
    translator = DocumentTranslator.load(trained_run)
    data = RunFolder(trained_run).config().data
    requests = held_out_requests(translator, data, 40)
    greedy = DecodeConfig(beam=1)
    special, model = translator.subwords.special, translator.model
    exact = PrefillEngine(model, special, greedy).search(requests)
    int8 = PrefillEngine(model, special, replace(greedy, precision="int8"))
    rounded = int8.search(requests)
    pairs = [(left[0], right[0]) for left, right in zip(exact, rounded, strict=True)]
    equal = [(left, right) for left, right in pairs if left.tokens == right.tokens]
    record_property("share of equal greedy outputs", len(equal) / len(pairs))
    assert len(equal) >= 0.6 * len(pairs)
    # Scores are log-probabilities per token.
    assert max(abs(left.score - right.score) for left, right in equal) < 0.05
    alone = [int8.search([request])[0][0].tokens for request in requests]
    assert alone == [found[0].tokens for found in rounded]


def test_only_stock_models_are_supported(
    tiny_model: Callable[..., Any], special: SpecialIds
) -> None:
    class Other(MarianMTModel):
        pass

    assert ENGINES["prefill"].takes(random_model(special, 0))
    assert not ENGINES["prefill"].takes(tiny_model("bart"))
    assert not ENGINES["prefill"].takes(Other(random_model(special, 0).config))


@pytest.mark.parametrize("beam", [1, 4])
def test_every_row_has_its_own_end_as_in_generate(special: SpecialIds, beam: int) -> None:
    model = random_model(special, 9)
    with torch.no_grad():
        model.final_logits_bias[0, [special.sep, special.eos]] += 3
    config = DecodeConfig(beam=beam)
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    ends = (None, special.sep, special.eos, 30)
    requests = [replace(r, end=ends[i % 4]) for i, r in enumerate(drawn_requests(9, 12))]
    assert_alike(*engines, requests)
    for request, hypotheses in zip(requests, engines[0].search(requests), strict=True):
        # Neither the own end nor that of another row is part of a translation.
        assert not {*hypotheses[0].tokens} & {request.end, special.eos, special.sep}
    usual = [replace(request, end=None) for request in requests]
    assert engines[0].search(usual) != engines[0].search(requests)
