"""Inputs that once ended in a traceback, and every target with what is right and with nothing."""

from pathlib import Path

import pytest
from broken_files import time_limit
from targets import REGRESSIONS, TARGETS, pack, try_target, unpack

SECONDS = 30
KNOWN = sorted(path for path in REGRESSIONS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_right_is_read_and_nothing_is_refused_or_read(name: str, tmp_path: Path) -> None:
    files = TARGETS[name].files()
    assert unpack(list(files), pack(files)) == files
    refusal = try_target(name, files, tmp_path)
    # The folder, the run and the owner of the lock that are named do not exist here.
    assert refusal is None or name.startswith("flags_")
    try_target(name, dict.fromkeys(files, b""), tmp_path)


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_known_input_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    name = path.parent.name
    files = unpack(list(TARGETS[name].files()), path.read_bytes())
    with time_limit(SECONDS):
        try_target(name, files, tmp_path)


def test_there_are_known_inputs() -> None:
    assert {path.parent.name for path in KNOWN} <= TARGETS.keys()
    assert len(KNOWN) >= 5
