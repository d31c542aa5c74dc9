"""The entry point: quick where it must be, and errors in one line with the right exit code."""

import json
import logging
import subprocess
import sys
import types

import pytest

import iada
from iada.cli.main import COMMANDS, main
from iada.errors import DataError

SLOW_MODULES = ("torch", "transformers", "numpy", "tyro", "yaml", "matplotlib")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the module of `iada train`; tests replace its `run`."""
    module = types.ModuleType("stand_in_command")
    module.parse = list  # type: ignore[attr-defined]
    module.run = print  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "train", (module.__name__, "stand-in"))
    monkeypatch.delenv("IADA_DEBUG", raising=False)
    return module


def raising(module: types.ModuleType, error: BaseException) -> None:
    def run(_: object) -> None:
        raise error

    module.run = run  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["--version"], ["trian"]])
def test_nothing_slow_is_imported_for_a_first_answer(arguments: list[str]) -> None:
    code = (
        "import sys; from iada.cli.main import main; main(sys.argv[1:]);"
        f"print([name for name in {SLOW_MODULES!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    for name, (_, description) in COMMANDS.items():
        assert f"  {name} " in shown
        assert description in shown


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"iada {iada.__version__}\n"


def test_a_mistyped_command_is_answered_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evalute"]) == 2
    expected = "error: there is no command `evalute`. Did you mean `evaluate`?\n"
    assert capsys.readouterr().err == expected


def test_arguments_come_from_the_process_when_none_are_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["iada", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("iada ")


def test_a_command_gets_its_arguments_without_debug(
    command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "a.yaml", "--debug", "--seed", "3"]) == 0
    assert capsys.readouterr().out == "['a.yaml', '--seed', '3']\n"


def test_a_users_mistake_is_one_line_and_exit_code_2(
    command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(command, DataError("train.de has 3 lines but train.en has 4."))
    assert main(["train"]) == 2
    shown = capsys.readouterr()
    assert shown.err == "error: train.de has 3 lines but train.en has 4.\n"
    assert shown.out == ""


@pytest.mark.parametrize("arguments", [["--debug", "train"], ["train", "--debug"]])
def test_debug_shows_the_error_itself(command: types.ModuleType, arguments: list[str]) -> None:
    raising(command, DataError("broken"))
    with pytest.raises(DataError, match="broken"):
        main(arguments)


def test_debug_can_be_set_in_the_environment(
    command: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(command, KeyboardInterrupt())
    monkeypatch.setenv("IADA_DEBUG", "0")
    assert main(["train"]) == 130
    monkeypatch.setenv("IADA_DEBUG", "1")
    with pytest.raises(KeyboardInterrupt):
        main(["train"])


def test_an_interrupt_is_one_line(
    command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(command, KeyboardInterrupt())
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_missing_file_is_named(
    command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(command, FileNotFoundError(2, "No such file or directory", "corpus/train.en"))
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "error: corpus/train.en: No such file or directory.\n"


def test_a_file_error_without_a_file_is_a_defect(command: types.ModuleType) -> None:
    raising(command, FileNotFoundError("lost"))
    with pytest.raises(FileNotFoundError, match="lost"):
        main(["train"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(28, "No space left on device"), "No space left on device. Free some space, then"),
        (OSError(27, "File too large", "a/b"), "a/b: File too large. Raise the limit on the size"),
        (OSError(24, "Too many open files", "a"), "a: Too many open files. Raise the limit on op"),
        (OSError(30, "Read-only file system", "a"), "a: Read-only file system. Choose a folder"),
        (PermissionError(13, "Permission denied", "a"), "a: Permission denied. Choose a folder"),
        (OSError(36, "File name too long", "a"), "a: File name too long. Choose a shorter name"),
        (Exception("Error: File too large (os error 27)"), "File too large. Raise the limit on"),
        (MemoryError(), "Out of memory. Lower `train.max_tokens`"),
        (RuntimeError("[enforce fail] can't allocate memory: you tried"), "Out of memory ([enf"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "Out of memory (CUDA out of me"),
    ],
)
def test_what_the_system_refuses_is_one_line_and_exit_code_2(
    command: types.ModuleType,
    error: Exception,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raising(command, error)
    assert main(["train"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {expected}")
    assert shown.endswith("then give the same command again.\n")
    assert shown.count("\n") == 1


def test_a_defect_keeps_its_traceback(command: types.ModuleType) -> None:
    raising(command, ZeroDivisionError("defect"))
    with pytest.raises(ZeroDivisionError, match="defect"):
        main(["train"])


@pytest.mark.parametrize(
    ("stop", "code"), [(SystemExit(2), 2), (SystemExit(), 0), (SystemExit("why"), 1)]
)
def test_an_exit_becomes_an_exit_code(
    command: types.ModuleType, stop: SystemExit, code: int
) -> None:
    raising(command, stop)
    assert main(["train"]) == code


def test_a_wrong_flag_ends_with_exit_code_2_and_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["env", "--jsn"]) == 2
    assert "--json" in capsys.readouterr().err


def test_messages_go_to_stderr_only_while_a_command_runs(
    command: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list(logging.getLogger().handlers)

    def run(_: object) -> None:
        logging.getLogger("iada.training").info("update 10")
        logging.getLogger("someone.else").info("chatter")

    command.run = run  # type: ignore[attr-defined]
    assert main(["train"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "update 10\n")
    assert logging.getLogger().handlers == before


def test_a_reader_that_leaves_early_is_no_error() -> None:
    # `run` waits until the reading end is closed, then prints more than a pipe's buffer holds.
    code = (
        "import sys, types; from iada.cli.main import COMMANDS, main;"
        "module = types.ModuleType('m'); module.parse = list;"
        "module.run = lambda _: (sys.stdin.read(), print('x' * 1000000));"
        "sys.modules['m'] = module; COMMANDS['train'] = ('m', ''); sys.exit(main(['train']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iada", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"iada {iada.__version__}\n"


def test_env_prints_lines_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env"]) == 0
    assert "packages.torch: " in capsys.readouterr().out
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["torch"]
    assert found["cpu"]["threads"] >= 1
