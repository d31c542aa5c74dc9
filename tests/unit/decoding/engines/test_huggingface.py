"""Search with `generate`: the same in any batch, within its limits, for every architecture."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import MarianMTModel, PreTrainedModel

from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import SpecialIds
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Request

ModelFactory = Callable[..., PreTrainedModel]

ARCHITECTURES = ("marian", "bart", "mbart", "m2m100", "t5")
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)

EQUAL_PREFIXES = [
    Request((10, 11, 12, 2), (1, 20, 4), 8),
    Request((20, 2), (1, 21, 4), 5),
    Request((13, 14, 15, 16, 17, 18, 2), (1, 22, 4), 12),
]
MIXED_PREFIXES = [
    Request((10, 11, 12, 2), (1,), 8),
    Request((20, 2), (1, 21, 22, 4, 23, 4), 5),
    Request((13, 14, 15, 16, 17, 18, 2), (1, 30, 4), 12),
]


@pytest.fixture
def engine(tiny_model: ModelFactory, special: SpecialIds) -> Callable[..., HuggingFaceEngine]:
    """Return a function that puts an engine around a random model in float64."""

    def build(
        architecture: str, *, beam: int = 1, seed: int = 0, length_penalty: float = 1.0
    ) -> HuggingFaceEngine:
        model = tiny_model(architecture, seed=seed).eval()
        config = DecodeConfig(beam=beam, length_penalty=length_penalty)
        return HuggingFaceEngine(model, special, config)

    return build


def translate(search: HuggingFaceEngine, requests: Sequence[Request]) -> list[list[int]]:
    """The best translation of each request."""
    return [list(hypotheses[0].tokens) for hypotheses in search.search(requests)]


def log_probabilities(engine: HuggingFaceEngine, request: Request, said: Sequence[int]) -> Tensor:
    """Ask the model directly for the next token; forbidden tokens get minus infinity.

    As in `generate`, the softmax is over all tokens, and forbidding comes after it.
    """
    with torch.inference_mode():
        logits = engine.model(
            input_ids=torch.tensor([request.source]),
            decoder_input_ids=torch.tensor([[*request.prefix, *said]]),
        ).logits[0, -1]
    scores = logits.log_softmax(dim=-1)
    scores[[i for i in engine.special.all if i != engine.special.eos]] = -float("inf")
    return scores


def greedy(engine: HuggingFaceEngine, request: Request) -> list[int]:
    said: list[int] = []
    while len(said) < request.max_new:
        best = int(log_probabilities(engine, request, said).argmax())
        if best == engine.special.eos:
            break
        said.append(best)
    return said


@every_architecture
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_of_one_follows_the_most_probable_token(
    engine: Callable[..., HuggingFaceEngine], architecture: str, seed: int
) -> None:
    search = engine(architecture, seed=seed)
    for request in MIXED_PREFIXES:
        assert translate(search, [request]) == [greedy(search, request)]


@every_architecture
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_gives_what_each_sentence_alone_gives(
    engine: Callable[..., HuggingFaceEngine], architecture: str, beam: int, seed: int
) -> None:
    search = engine(architecture, beam=beam, seed=seed)
    alone = [translate(search, [request])[0] for request in EQUAL_PREFIXES]
    assert translate(search, EQUAL_PREFIXES) == alone
    assert any(alone)


@every_architecture
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_prefixes_of_different_lengths_share_a_batch_without_a_trace(
    engine: Callable[..., HuggingFaceEngine], architecture: str, beam: int, seed: int
) -> None:
    search = engine(architecture, beam=beam, seed=seed)
    alone = [translate(search, [request])[0] for request in MIXED_PREFIXES]
    assert translate(search, MIXED_PREFIXES) == alone
    assert translate(search, MIXED_PREFIXES[::-1]) == alone[::-1]
    assert any(alone)


@every_architecture
@pytest.mark.parametrize("beam", [1, 5])
def test_special_tokens_are_never_said(
    engine: Callable[..., HuggingFaceEngine], architecture: str, beam: int
) -> None:
    search = engine(architecture, beam=beam)
    bias = torch.zeros(search.model.config.vocab_size, dtype=torch.float64)
    bias[list(search.special.all)] = 50.0
    bias[search.special.eos] = -50.0
    # A model that wants to say special tokens and never to end.
    search.model.get_output_embeddings().register_forward_hook(lambda _, __, out: out + bias)
    answers = translate(search, EQUAL_PREFIXES)
    # Special tokens would be filtered from the answers, which would then be shorter.
    assert [len(answer) for answer in answers] == [r.max_new for r in EQUAL_PREFIXES]


@every_architecture
@pytest.mark.parametrize("beam", [1, 5])
def test_every_row_keeps_its_own_length_limit(
    engine: Callable[..., HuggingFaceEngine], architecture: str, beam: int
) -> None:
    search = engine(architecture, beam=beam)
    requests = [Request((10, 11, 12, 2), (1, 20, 4), limit) for limit in (1, 2, 5, 9)]
    lengths = [len(answer) for answer in translate(search, requests)]
    assert all(length <= r.max_new for length, r in zip(lengths, requests, strict=True))
    alone = [len(translate(search, [request])[0]) for request in requests]
    assert lengths == alone


@pytest.mark.parametrize("length_penalty", [0.5, 1.0, 2.0])
def test_a_hypothesis_is_scored_by_its_own_tokens_alone(
    engine: Callable[..., HuggingFaceEngine], length_penalty: float
) -> None:
    """Enumerate all translations of at most one token and compare the winner.

    A score that divided by the length of the prefix too would choose another winner for some.
    """
    prefix = (1, 20, 21, 22, 23, 24, 4)
    differ = 0
    for seed in range(6):
        # A beam as wide as the vocabulary loses nothing.
        search = engine("marian", beam=35, seed=seed, length_penalty=length_penalty)
        request = Request((10, 11, 12, 2), prefix, 1)
        first = log_probabilities(search, request, [])
        # `</s>` is a token of the hypothesis: nothing said has length 1, one word has length 2.
        # After one word the limit leaves only `</s>`, but it is still paid for.
        sums = {(): float(first[search.special.eos])}
        for token in range(6, 40):
            end = log_probabilities(search, request, [token])[search.special.eos]
            sums[token,] = float(first[token] + end)
        own = max(sums, key=lambda h: sums[h] / (len(h) + 1) ** length_penalty)
        whole = max(sums, key=lambda h: sums[h] / (len(prefix) + len(h) + 1) ** length_penalty)
        assert translate(search, [request]) == [list(own)]
        differ += own != whole
    assert differ


def test_a_wider_beam_finds_a_hypothesis_at_least_as_good(
    engine: Callable[..., HuggingFaceEngine],
) -> None:
    def score(search: HuggingFaceEngine, request: Request, answer: list[int]) -> float:
        total = 0.0
        for position, token in enumerate([*answer, search.special.eos]):
            total += float(log_probabilities(search, request, answer[:position])[token])
        return total / (len(answer) + 1)

    better = 0
    for seed in range(5):
        narrow, wide = engine("marian", seed=seed), engine("marian", beam=5, seed=seed)
        for request in MIXED_PREFIXES:
            one, five = (translate(s, [request])[0] for s in (narrow, wide))
            better += score(wide, request, five) > score(narrow, request, one) + 1e-9
    assert better


@pytest.mark.parametrize(
    ("architecture", "can_pad"),
    [("marian", True), ("bart", True), ("mbart", True), ("m2m100", False), ("t5", True)],
)
def test_only_a_model_that_takes_position_ids_reads_prefixes_in_one_pass(
    engine: Callable[..., HuggingFaceEngine], architecture: str, can_pad: bool
) -> None:
    assert engine(architecture).can_pad == can_pad


class WindowModel(MarianMTModel):
    """Reads one number per window, which makes a token more probable, and notes its shapes."""

    window_inputs = ("first_sentence",)
    counts_positions = True

    def forward(self, *args: Any, first_sentence: Tensor, **kwargs: Any) -> Any:
        self.seen = getattr(self, "seen", [])
        self.seen.append(first_sentence.tolist())
        outputs = super().forward(*args, **kwargs)
        outputs.logits[:, :, 33] += 10.0 * first_sentence[:, None]
        return outputs

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        return {**inputs, "first_sentence": kwargs["first_sentence"]}


@pytest.fixture
def window_model(tiny_model: ModelFactory) -> WindowModel:
    stock = tiny_model("marian")
    model = WindowModel(stock.config).double()
    model.load_state_dict(stock.state_dict())
    return model


@pytest.mark.parametrize("beam", [1, 3])
def test_inputs_of_a_window_reach_the_model_once_per_beam(
    window_model: WindowModel, special: SpecialIds, beam: int
) -> None:
    search = HuggingFaceEngine(window_model, special, DecodeConfig(beam=beam))
    requests = [
        replace(request, inputs=inputs)
        for request, inputs in zip(
            EQUAL_PREFIXES, ({"first_sentence": 2}, {}, {"first_sentence": 1}), strict=True
        )
    ]
    answers = translate(search, requests)
    # A missing number is 0.
    assert all(seen == [2] * beam + [0] * beam + [1] * beam for seen in window_model.seen)
    assert set(answers[0]) == set(answers[2]) == {33}
    assert 33 not in answers[1]


def test_a_model_that_counts_positions_is_left_alone(
    window_model: WindowModel, engine: Callable[..., HuggingFaceEngine], special: SpecialIds
) -> None:
    own = HuggingFaceEngine(window_model, special, DecodeConfig(beam=1))
    stock = engine("marian")

    def scores(search: HuggingFaceEngine, requests: Sequence[Request]) -> list[float]:
        return [found[0].score for found in search.search(requests)]

    expected = [scores(stock, [request])[0] for request in MIXED_PREFIXES]
    assert scores(stock, MIXED_PREFIXES) == pytest.approx(expected)
    # This one does not keep its promise to count: padding shifts its positions.
    assert own.can_pad
    assert [scores(own, [request])[0] for request in MIXED_PREFIXES] == pytest.approx(expected)
    assert scores(own, MIXED_PREFIXES)[1:2] == pytest.approx(expected[1:2])
    assert scores(own, MIXED_PREFIXES)[::2] != pytest.approx(expected[::2])


def test_search_leaves_no_hook_behind(engine: Callable[..., HuggingFaceEngine]) -> None:
    search = engine("marian")
    translate(search, MIXED_PREFIXES)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in search.model.modules())
