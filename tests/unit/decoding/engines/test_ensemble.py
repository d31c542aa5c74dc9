"""Several models search as one, by the mean of their probabilities."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.decoding.engines import choose_engine
from iada.decoding.engines.interface import EngineSetup, Request
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.engines.prefill.int8 import is_available
from iada.errors import ModelError
from iada.models.build import build_model

VOCABULARY = 300
REQUESTS = [
    Request((20, 21, 22, 23, 2), (1, 40, 41, 4), 12),
    Request((30, 2), (1,), 5),
    Request((31, 32, 33, 2), (1, 50, 4), 9, min_new=3),
    # So long that the caches must grow and are tidied.
    Request((24, 25, 26, 27, 2), (1, 60, 61, 62, 4), 45, min_new=35),
]


def random_model(special: SpecialIds, seed: int, *, dim: int = 16, layers: int = 2) -> Any:
    torch.manual_seed(seed)
    config = ModelConfig(
        dim=dim,
        feed_forward=32,
        heads=2,
        encoder_layers=1,
        decoder_layers=layers,
        max_positions=64,
    )
    model = build_model(config, vocabulary_size=VOCABULARY, special=special).double().eval()
    with torch.no_grad():
        model.model.shared.weight.normal_(std=0.3)
        model.final_logits_bias[0, special.eos] += 2
    return model


@torch.no_grad()
def greedy_by_hand(models: list[Any], request: Request, special: SpecialIds) -> tuple[Any, float]:
    """Take the most probable token by the mean of the probabilities, one at a time."""
    tokens: list[int] = []
    total = 0.0
    while True:
        mean = torch.stack(
            [
                model(
                    input_ids=torch.tensor([request.source]),
                    decoder_input_ids=torch.tensor([[*request.prefix, *tokens]]),
                )
                .logits[0, -1]
                .softmax(dim=-1)
                for model in models
            ]
        ).mean(dim=0)
        allowed = mean.clone()
        allowed[[token for token in special.all if token != special.eos]] = 0
        if len(tokens) < request.min_new:
            allowed[special.eos] = 0
        best = special.eos if len(tokens) == request.max_new else int(allowed.argmax())
        total += math.log(mean[best])
        if best == special.eos:
            return tuple(tokens), total / (len(tokens) + 1)
        tokens.append(best)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_with_itself_is_itself(special: SpecialIds, beam: int) -> None:
    model, config = random_model(special, 1), DecodeConfig(beam=beam, n_best=min(beam, 3))
    alone = PrefillEngine(model, special, config).search(REQUESTS)
    twice = PrefillEngine(model, special, config, [model, model]).search(REQUESTS)
    for left, right in zip(alone, twice, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-6)


def test_two_models_agree_on_the_mean_of_their_probabilities(special: SpecialIds) -> None:
    """Also models of different sizes; each alone says something else."""
    models = [random_model(special, 2), random_model(special, 3, dim=24, layers=1)]
    config = DecodeConfig(beam=1)
    together = PrefillEngine(models[0], special, config, models[1:]).search(REQUESTS)
    for request, (found,) in zip(REQUESTS, together, strict=True):
        tokens, score = greedy_by_hand(models, request, special)
        assert found.tokens == tokens
        assert found.score == pytest.approx(score, abs=1e-5)
    for model in models:
        assert PrefillEngine(model, special, config).search(REQUESTS) != together


def test_the_score_of_a_beam_is_the_mean_probability_of_its_tokens(special: SpecialIds) -> None:
    models = [random_model(special, seed) for seed in (4, 5, 6)]
    config = DecodeConfig(beam=5, n_best=5)
    request = REQUESTS[0]
    (found,) = PrefillEngine(models[0], special, config, models[1:]).search([request])
    for hypothesis in found:
        ids = torch.tensor([[*request.prefix, *hypothesis.tokens]])
        labels = [*hypothesis.tokens, special.eos]
        with torch.no_grad():
            logits = [
                model(input_ids=torch.tensor([request.source]), decoder_input_ids=ids).logits
                for model in models
            ]
        mean = torch.stack([one[0, -len(labels) :].softmax(dim=-1) for one in logits]).mean(dim=0)
        expected = mean[range(len(labels)), labels].log().sum() / len(labels)
        assert hypothesis.score == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.skipif(not is_available(), reason="needs PyTorch's integer kernels")
def test_an_ensemble_in_integers_does_not_depend_on_the_batch(special: SpecialIds) -> None:
    models = [random_model(special, seed).float() for seed in (7, 8)]
    config = DecodeConfig(beam=3, precision="int8")
    search = PrefillEngine(models[0], special, config, models[1:])
    alone = [found for request in REQUESTS for found in search.search([request])]
    assert search.search(REQUESTS) == alone


def test_engines_that_cannot_average_say_so(
    special: SpecialIds, subwords: Subwords, tiny_model: Callable[..., Any]
) -> None:
    model = random_model(special, 9)

    def open_with(*models: Any, engine: Any = "auto") -> None:
        decode = DecodeConfig(engine=engine)
        others = tuple(models[1:])
        choose_engine(EngineSetup(models[0], subwords, WindowConfig(), decode, ensemble=others))

    for engine in ("huggingface", "ctranslate2"):
        with pytest.raises(ModelError, match=rf"`{engine}` searches with one model .* `prefill`"):
            open_with(model, model, engine=engine)
    with pytest.raises(ModelError, match=r"one architecture, but these are a BartFor.* and a Mar"):
        open_with(model, tiny_model("bart"))
    with pytest.raises(ModelError, match="does not take a BartForConditionalGeneration"):
        open_with(tiny_model("bart"), tiny_model("bart"))
