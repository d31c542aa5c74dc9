"""The fused losses equal the plain ones: values, gradients, and no more work than needed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from iada.method import chunks
from iada.method.fused import fused_losses, nll_gradient, token_nll
from iada.method.losses import AgreementTerm, Sums, Terms, plain_losses
from iada.models.observation import LinearProjection

DIM, VOCABULARY = 6, 20
BOTH = Terms(nll_weights=(0.5, 2.0), smoothing=0.1, agreement=AgreementTerm(3.0))
AGREEMENTS = [
    None,
    AgreementTerm(0.7),
    AgreementTerm(0.7, stop_first=True),
    AgreementTerm(0.7, "js"),
    AgreementTerm(0.7, "js", stop_first=True),
    AgreementTerm(0.7, "kl"),
    AgreementTerm(0.7, "kl", stop_first=True),
]


def _setting(
    tokens: int = 11, *, views: int = 2, bias: bool = True, dtype: torch.dtype = torch.float64
) -> tuple[LinearProjection, list[Tensor], Tensor]:
    torch.manual_seed(tokens)
    model = nn.Module()
    linear = nn.Linear(DIM, VOCABULARY, bias=bias, dtype=dtype)
    if bias:
        model.register_buffer("final_logits_bias", torch.randn(1, VOCABULARY, dtype=dtype))
    states = [torch.randn(tokens, DIM, dtype=dtype, requires_grad=True) for _ in range(views)]
    return LinearProjection(linear, model), states, torch.randint(VOCABULARY, (tokens,))


def _plain(
    projection: LinearProjection, states: list[Tensor], labels: Tensor, terms: Terms
) -> Sums:
    logits = [nn.functional.linear(s, projection.weight, projection.bias()) for s in states]
    return plain_losses(logits, labels, terms)


def _gradients(sums: Sums, projection: LinearProjection, states: list[Tensor]) -> list[Tensor]:
    inputs = [*states, *projection.linear.parameters()]
    found = torch.autograd.grad(sums.total, inputs, allow_unused=True)
    # A view that nothing is learned from has no gradient in one computation, zeros in the other.
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]


def _assert_equal(
    setting: tuple[LinearProjection, list[Tensor], Tensor],
    terms: Terms,
    *,
    chunk_rows: int | None,
    tolerance: float,
) -> None:
    projection, states, labels = setting
    ours = fused_losses(projection, states, labels, terms, chunk_rows=chunk_rows)
    theirs = _plain(projection, states, labels, terms)
    for mine, other in zip(
        (ours.total, ours.agreement, *ours.nlls),
        (theirs.total, theirs.agreement, *theirs.nlls),
        strict=True,
    ):
        if mine is None or other is None:
            assert mine is other
        else:
            torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
    pairs = zip(
        _gradients(ours, projection, states), _gradients(theirs, projection, states), strict=True
    )
    for mine, other in pairs:
        assert mine.dtype == other.dtype
        assert (mine - other).norm() <= tolerance * other.norm() + 1e-12


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 0.0), (0.0, 2.0), (0.3, 1.7)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_the_plain_ones(
    agreement: AgreementTerm | None, weights: tuple[float, float], smoothing: float, bias: bool
) -> None:
    terms = Terms(nll_weights=weights, smoothing=smoothing, agreement=agreement)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        _assert_equal(_setting(bias=bias, dtype=dtype), terms, chunk_rows=6, tolerance=tolerance)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_one_view_alone(smoothing: float, weight: float) -> None:
    terms = Terms(nll_weights=(weight,), smoothing=smoothing)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        _assert_equal(_setting(views=1, dtype=dtype), terms, chunk_rows=4, tolerance=tolerance)


@settings(max_examples=40, deadline=None)
# More tokens in a chunk than the vocabulary has entries.
@example(tokens=25, chunk_rows=60, block_rows=2)
@given(tokens=st.integers(0, 9), chunk_rows=st.integers(1, 25), block_rows=st.integers(1, 5))
def test_chunks_and_blocks_do_not_matter(tokens: int, chunk_rows: int, block_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CPU_BLOCK_BYTES", block_rows * 4 * VOCABULARY)
        _assert_equal(_setting(tokens), BOTH, chunk_rows=chunk_rows, tolerance=1e-10)


def test_the_default_chunk_depends_on_the_vocabulary() -> None:
    _assert_equal(_setting(40), BOTH, chunk_rows=None, tolerance=1e-10)
    weight = torch.zeros(32_000, 1)
    assert chunks.default_chunk_rows(weight) == 262
    assert chunks.default_chunk_rows(weight.bfloat16()) == 524
    assert chunks.default_chunk_rows(torch.zeros(1, 1).expand(10**9, 1)) == 1
    assert chunks.default_chunk_rows(weight.to("meta")) == 2097


@pytest.mark.parametrize("agreement", AGREEMENTS[1:])
def test_gradients_agree_with_finite_differences(agreement: AgreementTerm) -> None:
    projection, states, labels = _setting(4)
    # A stopped gradient is not the derivative of the value, so only the others can be checked.
    terms = Terms(nll_weights=(0.5, 2.0), smoothing=0.1, agreement=agreement)
    inputs = [states[1], projection.linear.weight, projection.linear.bias]
    if agreement.stop_first:
        inputs = inputs[:1]

    def total(*_: Tensor) -> Tensor:
        return fused_losses(projection, states, labels, terms, chunk_rows=3).total

    assert torch.autograd.gradcheck(total, inputs)


def test_the_outer_gradient_scales_and_the_graph_can_be_walked_again() -> None:
    projection, states, labels = _setting()
    total = fused_losses(projection, states, labels, BOTH).total
    once = torch.autograd.grad(total, states, retain_graph=True)
    twice = torch.autograd.grad(2 * total, states, retain_graph=True)
    thrice = torch.autograd.grad(3 * total, states)
    for one, two, three in zip(once, twice, thrice, strict=True):
        torch.testing.assert_close(two, 2 * one)
        torch.testing.assert_close(three, 3 * one)
    with pytest.raises(RuntimeError, match="Call that one with `retain_graph=True`"):
        torch.autograd.grad(total, states)


def test_improbable_labels_have_a_finite_loss() -> None:
    # e^-200 is 0 in float32.
    linear = nn.Linear(1, 3, bias=False)
    linear.weight.data = torch.tensor([[200.0], [0.0], [-50.0]])
    state = torch.ones(1, 1, requires_grad=True)
    projection = LinearProjection(linear, nn.Module())
    sums = fused_losses(projection, [state], torch.tensor([2]), Terms(nll_weights=(1.0,)))
    assert sums.total.item() == 250.0
    assert torch.autograd.grad(sums.total, state)[0].item() == 250.0


def test_views_that_hardly_differ_have_an_accurate_agreement() -> None:
    projection, states, labels = _setting(dtype=torch.float32)
    near = [states[0], (states[0] + 1e-3 * states[1]).detach()]
    exact = [s.double() for s in near]
    other = LinearProjection(nn.Linear(DIM, VOCABULARY, dtype=torch.float64), nn.Module())
    other.linear.load_state_dict(projection.linear.state_dict())
    other.model.register_buffer("final_logits_bias", projection.model.final_logits_bias.double())
    terms = Terms(nll_weights=(0.0, 0.0), agreement=AgreementTerm(1.0))
    ours = fused_losses(projection, near, labels, terms).agreement
    theirs = _plain(other, exact, labels, terms).agreement
    assert ours is not None
    assert theirs is not None
    # The value itself is of the order of 1e-6.
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-2)


class _Largest(TorchDispatchMode):
    """Remembers the largest tensor that an operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_no_matrix_of_all_tokens_and_the_vocabulary_exists() -> None:
    projection, states, labels = _setting(100)
    with _Largest() as largest:
        fused_losses(projection, states, labels, BOTH, chunk_rows=10).total.backward()
    # The buffer of a chunk holds 10 · 20; states have 100 · 6.
    assert largest.elements == 100 * DIM
    with _Largest() as largest:
        _plain(projection, states, labels, BOTH).total.backward()
    assert largest.elements == 100 * VOCABULARY


def _products(compute: Callable[[], Any], tokens: int) -> float:
    """Count matrix products of (tokens × dim × vocabulary)."""

    def addmm(_: Any, a: Any, b: Any, **__: Any) -> int:
        return int(2 * a[0] * a[1] * b[1])

    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: addmm})
    with counter:
        compute()
    return counter.get_total_flops() / (2 * tokens * DIM * VOCABULARY)


@pytest.mark.parametrize(
    ("terms", "products"),
    [
        # Logits, gradient at the states, gradient at the weight.
        (Terms(nll_weights=(1.0,)), 3),
        (Terms(nll_weights=(1.0, 1.0)), 6),
        (Terms(nll_weights=(1.0, 1.0), agreement=AgreementTerm(1.0)), 6),
        (Terms(nll_weights=(0.0, 1.0), agreement=AgreementTerm(1.0)), 6),
        # Of a stopped view only the logits are needed.
        (Terms(nll_weights=(0.0, 1.0), agreement=AgreementTerm(1.0, stop_first=True)), 4),
        (Terms(nll_weights=(1.0, 1.0), agreement=AgreementTerm(1.0, stop_first=True)), 6),
    ],
)
def test_no_product_is_computed_that_nothing_needs(terms: Terms, products: int) -> None:
    projection, states, labels = _setting(12, views=len(terms.nll_weights), bias=False)

    def run() -> None:
        fused_losses(projection, states, labels, terms).total.backward()

    # Expectations under a distribution are small products too.
    assert _products(run, 12) == pytest.approx(products, abs=0.7)


def test_without_gradients_only_the_logits_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    projection, states, labels = _setting(12, bias=False)
    for name in ("write_nll_gradient", "subtract_labels"):
        monkeypatch.setattr(chunks, name, None)
    expected = _plain(projection, states, labels, BOTH).total

    def run() -> None:
        with torch.no_grad():
            sums = fused_losses(projection, states, labels, BOTH)
        torch.testing.assert_close(sums.total, expected)
        assert not sums.total.requires_grad

    assert _products(run, 12) == pytest.approx(2, abs=0.7)


def test_a_frozen_projection_costs_no_gradient() -> None:
    projection, states, labels = _setting(12, bias=False)
    expected = torch.autograd.grad(_plain(projection, states, labels, BOTH).total, states)
    projection.linear.requires_grad_(False)

    def run() -> None:
        total = fused_losses(projection, states, labels, BOTH).total
        torch.testing.assert_close(torch.autograd.grad(total, states), expected)

    assert _products(run, 12) == pytest.approx(4, abs=0.7)


def test_frozen_states_leave_the_gradient_of_the_weight() -> None:
    projection, states, labels = _setting(12)
    parameters = list(projection.linear.parameters())
    expected = torch.autograd.grad(_plain(projection, states, labels, BOTH).total, parameters)
    frozen = [state.detach() for state in states]
    total = fused_losses(projection, frozen, labels, BOTH).total
    torch.testing.assert_close(torch.autograd.grad(total, parameters), expected)


def test_an_agreement_of_weight_zero_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "compare", None)
    projection, states, labels = _setting()
    sums = fused_losses(projection, states, labels, Terms(nll_weights=(1.0, 1.0)))
    assert sums.agreement is None
    with pytest.raises(TypeError, match="not callable"):
        fused_losses(projection, states, labels, BOTH)


def test_an_nll_of_weight_zero_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "subtract_labels", None)
    projection, states, labels = _setting()
    terms = Terms(nll_weights=(0.0, 0.0), agreement=AgreementTerm(1.0))
    assert fused_losses(projection, states, labels, terms).nlls == (None, None)
    with pytest.raises(TypeError, match="not callable"):
        fused_losses(projection, states, labels, BOTH)


def test_no_tokens_give_zero_and_zero_gradients() -> None:
    projection, states, labels = _setting(0)
    sums = fused_losses(projection, states, labels, BOTH)
    assert sums.total.item() == 0
    sums.total.backward()
    # DDP waits for a gradient of every parameter, so none may be missing.
    for parameter in projection.linear.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    assert states[0].grad is not None


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_gradient_at_the_states_is_that_of_the_nll(smoothing: float) -> None:
    projection, states, labels = _setting(12, views=1, bias=False)
    terms = Terms(nll_weights=(1.0,), smoothing=smoothing)
    (expected,) = torch.autograd.grad(_plain(projection, states, labels, terms).total, states)

    def run() -> None:
        found = nll_gradient(projection, states[0], labels, smoothing=smoothing)
        torch.testing.assert_close(found, expected)
        assert not found.requires_grad

    assert _products(run, 12) == pytest.approx(2, abs=0.7)


def test_autocast_multiplies_in_bf16_and_adds_up_in_float32() -> None:
    projection, states, labels = _setting(dtype=torch.float32)
    exact = fused_losses(projection, states, labels, BOTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = fused_losses(projection, states, labels, BOTH, chunk_rows=6)
    assert rounded.total.dtype == torch.float32
    assert 0 < abs(rounded.total.item() / exact.total.item() - 1) < 1e-2
    assert rounded.agreement is not None
    # Only the products are rounded: from the same logits the rest is exact.
    weight = projection.weight.bfloat16()
    logits = [(s.bfloat16() @ weight.T).float() + projection.bias() for s in states]
    reference = plain_losses(logits, labels, BOTH)
    torch.testing.assert_close(rounded.total, reference.total, rtol=1e-5, atol=0)
    torch.testing.assert_close(rounded.agreement, reference.agreement, rtol=1e-5, atol=0)
    for near, true in zip(
        _gradients(rounded, projection, states), _gradients(exact, projection, states), strict=True
    ):
        assert near.dtype == torch.float32
        assert 0 < (near - true).norm() / true.norm() < 2e-2


def test_autocast_does_not_reach_the_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []
    chunk_sums = chunks.chunk_sums

    def watch(*arguments: Any, **settings: Any) -> Tensor:
        inside.append(torch.is_autocast_enabled("cpu"))
        return chunk_sums(*arguments, **settings)

    monkeypatch.setattr(chunks, "chunk_sums", watch)
    projection, states, labels = _setting(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fused_losses(projection, states, labels, BOTH)
        nll_gradient(projection, states[0], labels)
    assert inside == [False, False]


def test_a_model_in_bf16_has_its_sums_in_float32() -> None:
    projection, states, labels = _setting(dtype=torch.bfloat16)
    sums = fused_losses(projection, states, labels, BOTH, chunk_rows=6)
    assert sums.total.dtype == torch.float32
    assert {g.dtype for g in _gradients(sums, projection, states)} == {torch.bfloat16}
    expected = _plain(projection, states, labels, BOTH)
    torch.testing.assert_close(sums.total, expected.total, rtol=2e-2, atol=0)


@pytest.mark.parametrize("tokens", [0, 1, 11])
def test_the_nll_of_each_token_is_that_of_its_logits(
    tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection, (states,), labels = _setting(tokens, views=1)
    # Chunks of four tokens.
    monkeypatch.setattr(chunks, "CPU_CHUNK_BYTES", 4 * 4 * VOCABULARY)
    logits = nn.functional.linear(states, projection.weight, projection.bias())
    expected = nn.functional.cross_entropy(logits, labels, reduction="none")
    found = token_nll(projection, states, labels)
    torch.testing.assert_close(found, expected.detach())
    assert not found.requires_grad
