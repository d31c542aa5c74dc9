"""The Triton kernel gives what the chunked losses give; Triton's interpreter runs it on the CPU."""

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from iada.method import chunks
from iada.method.chunks import Head, chunk_sums
from iada.method.fused import fused_losses, nll_gradient
from iada.method.losses import AgreementTerm, Terms
from iada.models.observation import LinearProjection

HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed: `make kernels`")
interpreted = pytest.mark.skipif(
    not HAS_TRITON or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and TRITON_INTERPRET=1 from the start of the process: `make kernels`",
)
BOTH = Terms(nll_weights=(0.5, 2.0), smoothing=0.1, agreement=AgreementTerm(3.0))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    from iada.method import kernel

    # Several blocks in a small vocabulary.
    monkeypatch.setattr(kernel, "BLOCK", 16)
    kernel._agrees_with.cache_clear()
    yield kernel
    kernel._agrees_with.cache_clear()


def _both(
    kernel: ModuleType,
    terms: Terms,
    *,
    vocabulary: int = 37,
    tokens: int = 4,
    dtype: torch.dtype = torch.float32,
    bias: bool = True,
    cap: float | None = None,
    write: bool = True,
) -> list[tuple[Tensor, Tensor]]:
    """Sums and what is left in the logits: of the chunked losses, and of the kernel."""
    torch.manual_seed(vocabulary)
    views = len(terms.nll_weights)
    logits = (3 * torch.randn(views, tokens, vocabulary)).to(dtype)
    labels = torch.randint(vocabulary, (tokens, 1))
    added = torch.randn(vocabulary) if bias else None
    means = [
        (view.float() + (0 if added is None else added)).mean(dim=1, keepdim=True)
        if cap is None and terms.smoothing > 0
        else None
        for view in logits
    ]
    found = []
    for compute in (chunk_sums, kernel.chunk_sums):
        copy = logits.clone()
        sums = compute(copy, labels, terms, means, bias=added, cap=cap, write_gradients=write)
        found.append((sums, copy))
    return found


def _assert_same(found: list[tuple[Tensor, Tensor]], learned: list[int]) -> None:
    (sums, gradients), (own_sums, own_gradients) = found
    assert own_sums.dtype == sums.dtype == torch.float32
    torch.testing.assert_close(own_sums, sums, rtol=1e-5, atol=1e-5)
    rounding = max(1e-6, torch.finfo(gradients.dtype).eps)
    for view in learned:
        torch.testing.assert_close(
            own_gradients[view], gradients[view], rtol=rounding, atol=2e-6 + rounding / 100
        )


@interpreted
@pytest.mark.parametrize(
    "agreement", [None, AgreementTerm(0.7), AgreementTerm(0.7, stop_first=True)]
)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 0.0), (0.0, 2.0)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_two_views_have_the_same_sums_and_gradients(
    kernel: ModuleType,
    agreement: AgreementTerm | None,
    weights: tuple[float, float],
    smoothing: float,
) -> None:
    terms = Terms(nll_weights=weights, smoothing=smoothing, agreement=agreement)
    learned = [view for view in range(2) if terms.learns_from(view)]
    _assert_same(_both(kernel, terms), learned)


@interpreted
@pytest.mark.parametrize("vocabulary", [1, 5, 16, 17, 32, 45])
@pytest.mark.parametrize("terms", [BOTH, Terms(nll_weights=(0.4,), smoothing=0.1)])
def test_the_vocabulary_need_not_fill_its_blocks(
    kernel: ModuleType, vocabulary: int, terms: Terms
) -> None:
    found = _both(kernel, terms, vocabulary=vocabulary, bias=False)
    _assert_same(found, list(range(len(terms.nll_weights))))


@interpreted
@pytest.mark.parametrize("terms", [BOTH, Terms(nll_weights=(0.4,), smoothing=0.1)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_are_read_and_written(
    kernel: ModuleType, terms: Terms, dtype: torch.dtype
) -> None:
    found = _both(kernel, terms, dtype=dtype)
    assert found[1][1].dtype == dtype
    _assert_same(found, list(range(len(terms.nll_weights))))


@interpreted
@pytest.mark.parametrize("terms", [BOTH, Terms(nll_weights=(0.4,)), Terms(nll_weights=(0.4, 1.0))])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_cap_is_gone_back_through(kernel: ModuleType, terms: Terms, smoothing: float) -> None:
    terms = Terms(nll_weights=terms.nll_weights, smoothing=smoothing, agreement=terms.agreement)
    _assert_same(_both(kernel, terms, cap=4.0), list(range(len(terms.nll_weights))))


@interpreted
@pytest.mark.parametrize("terms", [BOTH, Terms(nll_weights=(1.0,))])
def test_logits_stay_where_no_gradient_is_wanted(kernel: ModuleType, terms: Terms) -> None:
    found = _both(kernel, terms, write=False)
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-5, atol=1e-5)
    torch.manual_seed(37)
    assert torch.equal(found[1][1], 3 * torch.randn(found[1][1].shape))


@interpreted
@pytest.mark.parametrize("tokens", [0, 1])
def test_few_tokens(kernel: ModuleType, tokens: int) -> None:
    _assert_same(_both(kernel, BOTH, tokens=tokens), [0, 1])
    _assert_same(_both(kernel, Terms(nll_weights=(1.0,)), tokens=tokens), [0])


@interpreted
def test_improbable_labels_and_equal_views_are_exact(kernel: ModuleType) -> None:
    logits = torch.tensor([200.0, 0.0, -50.0]).repeat(2, 1, 1)
    sums = kernel.chunk_sums(
        logits,
        torch.tensor([[2]]),
        Terms(nll_weights=(1.0, 1.0), agreement=AgreementTerm(1.0)),
        [None, None],
        bias=None,
        write_gradients=True,
    )
    assert sums.tolist() == [250.0, 250.0, 0.0]
    assert logits.tolist() == [[[1.0, 0.0, -1.0]], [[1.0, 0.0, -1.0]]]


def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the choice believe that every tensor lies on a GPU."""
    choose = chunks.kernel_sums

    def pretend(logits: Tensor, terms: Terms, head: Head) -> Any:
        there = SimpleNamespace(is_cuda=True, dtype=logits.dtype, device=logits.device)
        return choose(there, terms, head)  # type: ignore[arg-type]

    monkeypatch.setattr(chunks, "kernel_sums", pretend)


def _setting(dtype: torch.dtype = torch.float32) -> tuple[LinearProjection, list[Tensor], Tensor]:
    torch.manual_seed(3)
    linear = nn.Linear(6, 45, dtype=dtype)
    states = [torch.randn(7, 6, dtype=dtype, requires_grad=True) for _ in range(2)]
    return LinearProjection(linear, nn.Module()), states, torch.randint(45, (7,))


def _run(projection: LinearProjection, states: list[Tensor], labels: Tensor) -> list[Tensor]:
    found = fused_losses(projection, states, labels, BOTH, chunk_rows=6)
    gradients = torch.autograd.grad(found.total, [*states, *projection.linear.parameters()])
    return [found.total.detach(), *gradients, nll_gradient(projection, states[0], labels)]


@interpreted
def test_the_fused_losses_take_the_kernel_on_a_gpu(
    kernel: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    projection, states, labels = _setting()
    expected = _run(projection, states, labels)
    calls = []
    compute = kernel.chunk_sums

    def watch(*given: Any, **settings: Any) -> Tensor:
        calls.append(given[0].shape[1])
        result: Tensor = compute(*given, **settings)
        return result

    monkeypatch.setattr(kernel, "chunk_sums", watch)
    _on_a_gpu(monkeypatch)
    for mine, other in zip(_run(projection, states, labels), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    # Three rows of a trial, the chunks; the same for the NLL alone.
    assert calls == [3, 3, 3, 1, 3, 7]
    calls.clear()
    _run(projection, states, labels)
    assert calls == [3, 3, 1, 7]
    assert caplog.records == []


@interpreted
@pytest.mark.parametrize("fault", ["wrong", "broken"])
def test_a_kernel_that_fails_its_trial_is_not_taken(
    kernel: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    projection, states, labels = _setting()
    expected = _run(projection, states, labels)
    compute = kernel.chunk_sums

    def faulty(logits: Tensor, *given: Any, **settings: Any) -> Tensor:
        if fault == "broken":
            raise RuntimeError("no such instruction")
        result: Tensor = compute(logits, *given, **settings)
        logits[-1, -1, -1] += 0.01
        return result

    monkeypatch.setattr(kernel, "chunk_sums", faulty)
    _on_a_gpu(monkeypatch)
    with caplog.at_level(logging.WARNING):
        found = _run(projection, states, labels)
    assert all(map(torch.equal, found, expected))
    # Once for the losses and once for the NLL alone.
    assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING"]
    assert "not used" in caplog.text


@needs_triton
def test_what_the_kernel_does_not_take_is_left_to_the_chunks() -> None:
    from iada.method import kernel

    assert kernel.takes(torch.bfloat16, BOTH)
    assert not kernel.takes(torch.float64, BOTH)
    for divergence in ("js", "kl"):
        terms = Terms(nll_weights=(1.0, 1.0), agreement=AgreementTerm(1.0, divergence))
        assert not kernel.takes(torch.float32, terms)


def test_a_cpu_has_no_use_for_a_kernel() -> None:
    assert chunks.kernel_sums(torch.zeros(1, 1), BOTH, Head(torch.zeros(1, 1), None)) is None


def test_a_gpu_without_triton_takes_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    projection, states, labels = _setting()
    expected = _run(projection, states, labels)
    _on_a_gpu(monkeypatch)
    assert all(map(torch.equal, _run(projection, states, labels), expected))


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from iada.method import kernel

types = dict.fromkeys(("logits", "other_logits"), "*bf16")
types |= {"labels": "*i64", "bias": "*fp32", "found": "*fp32"}
types |= dict.fromkeys(("apart", "tokens", "vocabulary"), "i32")
for function in (kernel._one_view, kernel._two_views):
    for given in (False, True):
        fixed = {name: given for name in function.arg_names if name.isupper()}
        fixed["BLOCK"] = kernel.BLOCK
        signature = {
            name: "constexpr" if name in fixed else types.get(name, "fp32")
            for name in function.arg_names
        }
        fixed["WRITES"] = True
        source = ASTSource(function, signature, constexprs=fixed)
        made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 8})
        assert made.asm["cubin"]
        print(function.__name__)
"""


@interpreted
@pytest.mark.slow
def test_the_kernels_compile_for_an_a100(tmp_path: Any) -> None:
    # The interpreter takes any Python; the compiler does not. It needs no GPU.
    settings = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["_one_view"] * 2 + ["_two_views"] * 2
