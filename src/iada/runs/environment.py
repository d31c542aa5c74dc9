"""What a result depends on besides its configuration: versions, hardware, processes, memory.

The record goes into every run folder and is what `iada env` prints. It names no user, no host and
no path, so that it can be published with the results. A run that is resumed compares it.
"""

import ctypes
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Literal

import torch
from accelerate import PartialState
from torch import nn

from iada.errors import ModelError

PACKAGES = (
    "iada",
    "torch",
    "transformers",
    "accelerate",
    "tokenizers",
    "sacrebleu",
    "numpy",
)
"""Distributions whose version can change a result."""


def environment() -> dict[str, object]:
    """Return versions, hardware and git state as values that JSON can hold."""
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "memory_bytes": _memory(),
        "accelerators": _accelerators(),
        "bf16": _bf16(),
        "git": _git_state(),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, object]:
    return {
        "architecture": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "count": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "threads": torch.get_num_threads(),
    }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # Windows has no `sysconf`, and not every system knows these two names.
        return None


def _accelerators() -> list[str]:
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [*names, "mps"] if torch.backends.mps.is_available() else names


def _bf16() -> bool:
    """Whether the device that training would use computes bf16 in hardware."""
    if torch.cuda.is_available():
        # Without emulation: an old card accepts bf16 and is slower with it than without.
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if torch.backends.mps.is_available():
        return True
    return cpu_multiplies_bf16()


def cpu_multiplies_bf16() -> bool:
    """Whether the processor has instructions for products of bf16."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _has_cpu_flag("avx512_bf16")


def _has_cpu_flag(flag: str) -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return any(flag in line.split() for line in file if line.startswith("flags"))
    except OSError:
        return False


def _git_state() -> dict[str, object] | None:
    """Return commit and cleanliness of the current folder's repository, if it is in one."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": _git("status", "--porcelain") != ""}


def _git(*arguments: str) -> str | None:
    try:
        # Without locks: `git status` would otherwise rewrite the index of the user's repository,
        # and leave its lock file behind if the run is killed meanwhile.
        command = ["git", "--no-optional-locks", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def find_changes(saved: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """List what would make a resumed run differ from an uninterrupted one.

    Args:
        saved: the record of the run folder.
        current: the record as it would be written now.
    """
    before, after = _relevant(saved), _relevant(current)
    return [
        f"{name}: was {_shorten(before[name])}, is {_shorten(after.get(name))}"
        for name in before
        if before[name] is not None and before[name] != after.get(name)
    ]


def _relevant(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a record that decide about the updates, by a name for messages."""
    data = record.get("data", {})
    parts = {f"{name} version": version for name, version in record.get("packages", {}).items()}
    # Scores are computed after training.
    parts.pop("sacrebleu version", None)
    if "processes" in record:
        # iada 0.1.0 counted threads before they were set, and no processes.
        parts["processes"] = record["processes"]
        parts["CPU threads"] = record.get("cpu", {}).get("threads")
    parts["accelerators"] = record.get("accelerators")
    files = data.get("files", {})
    parts |= {f"sha256 of the {split} files": files.get(split) for split in ("train", "dev")}
    names = {"documents": "training documents", "subset": "sha256 of the subset"}
    names |= {"noisy_context": "sha256 of the noisy context", "rich": "sha256 of the rich windows"}
    return parts | {names[key]: data[key] for key in names if key in data}


def _shorten(value: object) -> str:
    """Show the first digits of hashes."""
    if isinstance(value, list):
        return " ".join(map(_shorten, value)) or "none"
    return value[:12] if isinstance(value, str) and len(value) == 64 else str(value)


def on_cpu() -> bool:
    """Whether there is no accelerator to train on."""
    return not torch.accelerator.is_available()


_PROBE_TOKENS, _PROBE_ROUNDS = 256, 4
_CLEARLY_FASTER = 1.15
"""Below this gain rounding would be for nothing: a small model has more to it than products."""


def fastest_precision(dim: int, feed_forward: int) -> Literal["fp32", "bf16"]:
    """Return the arithmetic in which this machine trains a model of some width faster.

    Answers from a fraction of a second of training a feed-forward block, with the number of threads
    that is set: whether a processor has the instructions does not say whether they pay.
    """
    device = torch.device("cpu" if on_cpu() else torch.accelerator.current_accelerator() or "cpu")
    if device.type == "mps" or (device.type == "cuda" and not _bf16()):
        return "fp32"
    gain = probe_bf16(dim, feed_forward, device)
    return "bf16" if gain >= _CLEARLY_FASTER else "fp32"


def probe_bf16(dim: int, feed_forward: int, device: torch.device) -> float:
    """Return how many times faster than in float32 a feed-forward block is trained in bf16."""
    with torch.random.fork_rng():
        block = nn.Sequential(
            nn.Linear(dim, feed_forward), nn.ReLU(), nn.Linear(feed_forward, dim), nn.LayerNorm(dim)
        ).to(device)
        states = torch.randn(_PROBE_TOKENS, dim, device=device, requires_grad=True)

    def seconds(*, half: bool) -> float:
        begun = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            loss = block(states).float().square().sum()
        torch.autograd.grad(loss, [states, *block.parameters()])
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    # In turns, and the best of each: other work on the machine only adds. The first is a warm-up.
    pairs = [(seconds(half=False), seconds(half=True)) for _ in range(_PROBE_ROUNDS)]
    plain, half = (min(times) for times in zip(*pairs[1:], strict=True))
    return float(plain / half)


def process_state() -> PartialState:
    """Return this process's place among the processes that `torchrun` or `accelerate` started.

    Without an accelerator the library must be told so: it would otherwise not connect the
    processes, and each would train on all batches.
    """
    return PartialState(cpu=on_cpu())


def refuse_sharding() -> None:
    """Refuse FSDP and DeepSpeed, which `accelerate launch` announces in the environment.

    Both split weights over processes, where importance and the fused losses read them whole.
    """
    for name, variable in (
        ("FSDP", "ACCELERATE_USE_FSDP"),
        ("DeepSpeed", "ACCELERATE_USE_DEEPSPEED"),
    ):
        if os.environ.get(variable, "").lower() in ("1", "true", "yes", "on"):
            raise ModelError(
                f"{name} is not supported: training needs whole weights in every process. Start "
                "`accelerate launch --multi_gpu` or `torchrun`, which keep a copy in each."
            )


# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1
_LARGEST_THRESHOLD = 32 * 2**20


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for reuse; other C libraries are left alone.

    Every update frees and allocates the same large blocks. By default glibc returns such blocks to
    the system and asks for them again, and each page is then faulted in anew.

    Returns:
        Whether the setting was made.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # The heap is never trimmed. Only the few blocks of the size of a large vocabulary's weight are
    # mapped on their own, so that smaller blocks cannot split the gaps that they leave.
    made = [
        library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_THRESHOLD),
        library.mallopt(_M_TRIM_THRESHOLD, _NEVER),
    ]
    return all(made)
