"""Search with decoders that tell sentences apart equals `generate`, however long it takes."""

from random import Random
from typing import Any

import pytest
import torch

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.decoding.engines import ENGINES, choose_engine
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import EngineSetup, Hypothesis, Request
from iada.decoding.engines.prefill import engine as prefill
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.errors import ModelError
from iada.models.build import build_model

VOCABULARY = 300
KEYS: dict[str, dict[str, Any]] = {
    "gtrans": {"wide_layers": 1},
    "han": {"context_sides": "both", "stop_context": False},
    "docflat": {"gate": "soft", "far_context": 2},
    "hybrid": {"stop_context": False},
}

# DocFlat reads far sentences beside the three near ones.
CONTEXT = dict.fromkeys(KEYS, 3) | {"docflat": 5}


def random_model(name: str, special: SpecialIds, seed: int) -> Any:
    """Three layers in float64 that end now and then, with gates that are neither open nor shut."""
    torch.manual_seed(seed)
    config = ModelConfig(
        architecture=name,  # type: ignore[arg-type]
        dim=16,
        feed_forward=32,
        heads=2,
        encoder_layers=2,
        decoder_layers=3,
        max_positions=160,
        **KEYS[name],
    )
    model = build_model(config, vocabulary_size=VOCABULARY, special=special, context=3)
    model = model.double().eval()
    with torch.no_grad():
        model.model.shared.weight.normal_(std=0.3)
        for key, weight in model.named_parameters():
            # What marks distances, and gates, must be felt.
            if any(part in key for part in ("distances", "relative", "_bias", "gate")):
                weight.normal_(std=0.5)
        model.final_logits_bias[0, special.eos] += 2
    return model


def drawn_requests(seed: int, count: int, name: str) -> list[Request]:
    """Windows with context on both sides, or with more of it on the source side."""
    draw = Random(seed)

    def sentences(number: int, end: int) -> list[int]:
        found: list[int] = []
        for _ in range(number):
            found += [*(draw.randrange(6, VOCABULARY) for _ in range(draw.randint(1, 9))), end]
        return found

    requests = []
    for _ in range(count):
        context = draw.randint(0, CONTEXT[name])
        told = context - draw.randint(0, min(1, context))
        least = draw.choice([0, 0, 25])
        requests.append(
            Request(
                tuple(sentences(context + 1, 2)),
                (1, *sentences(told, 4)),
                least + draw.randint(1, 15),
                min_new=least,
                inputs={"first_sentence": context - told},
            )
        )
    return requests


def assert_alike(found: list[list[Hypothesis]], others: list[list[Hypothesis]]) -> None:
    for row, other in zip(found, others, strict=True):
        assert [h.tokens for h in row] == [h.tokens for h in other]
        assert [h.score for h in row] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("beam", [1, 4])
def test_long_translations_in_long_windows_are_those_of_generate(
    special: SpecialIds, name: str, beam: int
) -> None:
    config = DecodeConfig(beam=beam, n_best=beam)
    model, requests = random_model(name, special, 1), drawn_requests(1, 9, name)
    found = PrefillEngine(model, special, config).search(requests)
    assert max(len(row[0].tokens) for row in found) > 20
    assert_alike(found, HuggingFaceEngine(model, special, config).search(requests))


@pytest.mark.parametrize("name", KEYS)
def test_how_the_work_is_cut_does_not_matter(
    special: SpecialIds, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = PrefillEngine(random_model(name, special, 2), special, DecodeConfig(beam=4))
    requests = drawn_requests(2, 8, name)
    expected = search.search(requests)
    assert_alike([search.search([request])[0] for request in requests], expected)
    for key, value in (("_GROUP_TOKENS", 1), ("_TIDY_INTERVAL", 1), ("_TIDY_INTERVAL", 1000)):
        monkeypatch.setattr(prefill, key, value)
        assert_alike(search.search(requests), expected)
        monkeypatch.undo()


@pytest.mark.parametrize("name", KEYS)
def test_a_model_averaged_with_itself_is_itself(special: SpecialIds, name: str) -> None:
    model, requests = random_model(name, special, 3), drawn_requests(3, 5, name)
    alone, twice = (
        PrefillEngine(model, special, DecodeConfig(beam=3), others) for others in ((), (model,))
    )
    assert_alike(twice.search(requests), alone.search(requests))
    # Each member reads its own context.
    other = random_model(name, special, 4)
    mixed = PrefillEngine(model, special, DecodeConfig(beam=3), (other,))
    swapped = PrefillEngine(other, special, DecodeConfig(beam=3), (model,))
    assert_alike(mixed.search(requests), swapped.search(requests))


@pytest.mark.parametrize("name", KEYS)
def test_float32_finds_what_generate_finds(special: SpecialIds, name: str) -> None:
    """With the layers and the attention that float32 has on CPUs."""
    model, requests = random_model(name, special, 5).float(), drawn_requests(5, 6, name)
    config = DecodeConfig(beam=3)
    engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
    found, others = (engine.search(requests) for engine in engines)
    assert [row[0].tokens for row in found] == [row[0].tokens for row in others]


@pytest.mark.parametrize("name", KEYS)
def test_it_is_chosen_where_one_sentence_is_written_at_a_time(
    special: SpecialIds, subwords: Subwords, name: str
) -> None:
    model = random_model(name, special, 6)

    def chosen(**keys: Any) -> str:
        decode = DecodeConfig(**keys)
        return choose_engine(EngineSetup(model, subwords, WindowConfig(), decode)).name

    assert chosen() == "prefill"
    assert chosen(unit="window") == "huggingface"
    with pytest.raises(ModelError, match=r"one sentence at a time, but `decode\.unit` is window"):
        chosen(unit="window", engine="prefill")
    with pytest.raises(ModelError, match="cannot be translated in int8"):
        chosen(precision="int8")


def test_layers_that_normalise_what_they_read_are_left_to_generate(special: SpecialIds) -> None:
    model = random_model("hybrid", special, 7)
    assert ENGINES["prefill"].takes(model)
    model.config.pre_norm = True
    assert not ENGINES["prefill"].takes(model)
