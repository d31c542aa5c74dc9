"""Named streams: the same everywhere, and independent of each other."""

import hashlib
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iada.seeding import derive_seed, generator

NAMES = st.lists(st.text() | st.integers(), max_size=3)


def test_the_value_is_the_first_63_bits_of_sha256() -> None:
    digest = hashlib.sha256(b'[1, "perturb", 20, 0]').hexdigest()
    assert derive_seed(1, "perturb", 20, 0) == int(digest[:16], 16) // 2


def test_another_process_finds_the_same_value_without_torch() -> None:
    code = (
        "import sys; from iada.seeding import derive_seed; print(derive_seed(3, 'data', 4));"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == derive_seed(3, "data", 4)


@given(st.integers(), NAMES, st.integers(), NAMES)
def test_different_names_or_seeds_give_different_values(
    seed: int, names: list[str | int], other_seed: int, other_names: list[str | int]
) -> None:
    value = derive_seed(seed, *names)
    assert 0 <= value < 2**63
    same = (seed, names) == (other_seed, other_names)
    assert (value == derive_seed(other_seed, *other_names)) == same


@pytest.mark.parametrize(("one", "other"), [(("ab",), ("a", "b")), ((1,), ("1",)), ((), ("",))])
def test_names_are_not_run_together(
    one: tuple[str | int, ...], other: tuple[str | int, ...]
) -> None:
    assert derive_seed(1, *one) != derive_seed(1, *other)


def test_a_generator_starts_at_the_beginning_of_its_stream() -> None:
    first = torch.rand(4, generator=generator(1, "perturb", 2))
    assert torch.equal(first, torch.rand(4, generator=generator(1, "perturb", 2)))
    assert not torch.equal(first, torch.rand(4, generator=generator(1, "perturb", 3)))


def test_a_generator_leaves_the_global_one_alone() -> None:
    before = torch.get_rng_state()
    torch.rand(4, generator=generator(1, "data"))
    assert torch.equal(before, torch.get_rng_state())
