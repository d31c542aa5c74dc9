"""The record of a run's surroundings."""

import getpass
import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from iada.runs import environment as module
from iada.runs.environment import PACKAGES, environment


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_versions_and_hardware_are_recorded() -> None:
    found = environment()
    packages = found["packages"]
    assert isinstance(packages, dict)
    assert tuple(packages) == PACKAGES
    assert packages["torch"]
    assert isinstance(found["bf16"], bool)


def test_the_record_is_json_without_home_or_user() -> None:
    text = json.dumps(environment())
    assert str(Path.home()) not in text
    user = getpass.getuser()
    # Short names such as `root` occur inside other words.
    assert f'"{user}"' not in text


def test_no_repository_gives_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment()["git"] is None


def test_the_state_of_git_is_commit_and_cleanliness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git("init")
    git("commit", "--allow-empty", "-m", "first")
    clean = environment()["git"]
    assert isinstance(clean, dict)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (tmp_path / "new.txt").write_text("x", encoding="utf-8")
    dirty = environment()["git"]
    assert dirty == {"commit": clean["commit"], "dirty": True}


def test_a_machine_without_git_gives_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment()["git"] is None


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("no-such-package",))
    assert environment()["packages"] == {"no-such-package": None}


def test_a_graphics_card_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda index: f"card {index}")
    assert environment()["accelerators"] == ["card 0"]


@pytest.mark.parametrize("supported", [True, False])
def test_half_precision_is_asked_of_the_graphics_card_without_emulation(
    supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(including_emulation: bool = True) -> bool:
        return supported or including_emulation

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", answer)
    assert environment()["bf16"] is supported


def test_an_apple_processor_is_an_accelerator_with_half_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    found = environment()
    assert (found["accelerators"], found["bf16"]) == (["mps"], True)


def test_a_system_that_does_not_tell_its_memory_gives_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> int:
        raise ValueError(f"unrecognized configuration name {name}")

    monkeypatch.setattr("os.sysconf", fail)
    assert environment()["memory_bytes"] is None


def test_the_users_repository_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    git("init", "-q")
    git("add", "a")
    index = tmp_path / ".git" / "index"
    # A newer time than the index knows: `git status` would refresh it.
    os.utime(tmp_path / "a", (2_000_000_000, 2_000_000_000))
    before = index.read_bytes()
    assert module._git("status", "--porcelain") == "A  a"
    assert index.read_bytes() == before


@pytest.mark.parametrize(("gain", "expected"), [(2.3, "bf16"), (1.1, "fp32"), (0.4, "fp32")])
def test_the_precision_is_bf16_where_it_is_clearly_faster(
    gain: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "probe_bf16", lambda *_: gain)
    monkeypatch.setattr(module, "on_cpu", lambda: True)
    assert module.fastest_precision(512, 2048) == expected


def test_the_probe_tells_what_bf16_gains_and_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each reading of the clock is what the next entry says: float32 takes 3 s, bf16 2 s.
    clock = iter([t for k in range(4) for t in (10 * k, 10 * k + 3, 10 * k + 5, 10 * k + 7)])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    before = torch.random.get_rng_state()
    assert module.probe_bf16(8, 16, torch.device("cpu")) == pytest.approx(1.5)
    assert torch.random.get_rng_state().equal(before)
    assert next(clock, None) is None
