import ctypes
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from iada.training import memory
from iada.training.callbacks import GapsReturned
from iada.training.memory import Gaps, keep_freed_memory


def test_the_setting_is_made_on_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            calls.append((parameter, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert keep_freed_memory()
    # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h.
    assert calls == [(-3, 2**25), (-1, 2**31 - 1)]


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_knows_both_settings() -> None:
    assert keep_freed_memory()


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the calls of `malloc_trim` by a large process on glibc."""
    calls: list[int] = []
    library = SimpleNamespace(malloc_trim=calls.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(memory, "_resident_bytes", lambda: 2**31)
    return calls


def test_gaps_are_given_back_after_every_second_batch(trims: list[int]) -> None:
    gaps = Gaps()
    counts = []
    for _ in range(5):
        gaps.after_batch()
        counts.append(len(trims))
    assert counts == [0, 1, 1, 2, 2]


def test_a_small_process_keeps_its_gaps(trims: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_resident_bytes", lambda: 2**31 - 1)
    gaps = Gaps()
    for _ in range(8):
        gaps.after_batch()
    assert trims == []


def test_other_c_libraries_keep_their_gaps(
    trims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    gaps = Gaps()
    for _ in range(8):
        gaps.after_batch()
    assert trims == []


def test_micro_batches_count_as_batches(trims: list[int]) -> None:
    callback = GapsReturned()
    callback.on_substep_end(None, None, None)
    assert trims == []
    callback.on_step_end(None, None, None)
    assert trims == [0]


@pytest.mark.skipif(platform.system() != "Linux", reason="needs /proc")
def test_the_size_of_the_process_is_known() -> None:
    before = memory._resident_bytes()
    block = bytearray(2**26)
    block[:: 2**12] = b"x" * len(block[:: 2**12])
    assert 2**25 < memory._resident_bytes() - before < 2**28


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_keeps_freed_memory_until_it_is_told_to_give_it_back() -> None:
    # In a process of its own, whose memory nobody else changes.
    program = """
from iada.training import memory
memory._SMALL = 0
memory.keep_freed_memory()
blocks = [bytearray(b"x") * 2**22 for _ in range(50)]
used = memory._resident_bytes()
# The last one stays, so that the others do not lie at the end of the heap.
del blocks[:-1]
kept = memory._resident_bytes()
gaps = memory.Gaps()
for _ in range(2):
    gaps.after_batch()
print(used - kept, kept - memory._resident_bytes())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    at_once, given_back = map(int, done.stdout.split())
    assert at_once < 2**22
    assert given_back > 40 * 2**22
