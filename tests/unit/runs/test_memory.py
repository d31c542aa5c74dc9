import ctypes
import platform

import pytest

from iada.runs.environment import keep_freed_memory


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
