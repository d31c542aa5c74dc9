"""The entry point: choose a command, import only that one, turn errors into one line.

Nothing slow is imported here, so that `iada --help` and a mistyped command answer at once.
Results go to stdout; errors, logs and progress go to stderr. Exit codes: 0 done, 1 defect (with
a traceback), 2 something the user can fix, 130 interrupted, 141 the reader of stdout went away.
"""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence

from iada import __version__
from iada.errors import IadaError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("iada.cli.demo", "train, translate and score on the embedded corpus, then report"),
    "init": ("iada.cli.init", "look at a corpus and this machine, write a recipe that fits"),
    "convert": ("iada.cli.convert", "parallel documents from one file format to another"),
    "prepare": ("iada.cli.prepare", "check a corpus, learn its encoding, store its tokens"),
    "train": ("iada.cli.train", "train a model from a YAML recipe"),
    "translate": ("iada.cli.translate", "translate documents with a trained model"),
    "serve": ("iada.cli.serve", "a page on this machine that translates, compares and explains"),
    "evaluate": ("iada.cli.evaluate", "score translations: BLEU, chrF, COMET, significance"),
    "contrast": ("iada.cli.contrast", "contrastive accuracy: does the model use its context?"),
    "inspect": ("iada.cli.inspect", "importance and replacement probability of every token"),
    "augment": ("iada.cli.augment", "perturbed or back-translated copies of a corpus, as text"),
    "experiment": ("iada.cli.experiment", "the paper's tables and figures, every run trained once"),
    "report": ("iada.cli.report", "one page of everything that runs and experiments found"),
    "export": ("iada.cli.export", "convert a model for CTranslate2 and check what it says"),
    "recipes": ("iada.cli.recipes", "list the recipes that come with the package, or write one"),
    "env": ("iada.cli.env", "versions and hardware, as a bug report needs them"),
}
"""Command -> (module, one line of help)."""

_FILE_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""Errors that the user can fix if they name a file."""
_SYSTEM_LIMITS = {
    errno.ENOSPC: "Free some space",
    errno.EDQUOT: "Free some space",
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`)",
    errno.EMFILE: "Raise the limit on open files (`ulimit -n`)",
    errno.ENFILE: "Close other programs",
    errno.ENOMEM: "Close other programs or use a smaller model or batch",
    errno.EROFS: "Choose a folder that can be written to",
    errno.EACCES: "Choose a folder that can be written to",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.EIO: "Check the disk",
}
"""Errors of the system -> what to do about them, before the same command is given again."""


def entry_point() -> None:
    """Run the console script."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: arguments after the program's name; those of the process if not given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("IADA_DEBUG", "") not in ("", "0")
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = _dispatch(arguments)
        # A closed pipe shows only when the buffer is written, and must show inside this `try`.
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return _exit_code(stop)
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        if debug:
            raise
        print("interrupted", file=sys.stderr)
        return 130
    except IadaError as error:
        if debug:
            raise
        return _fail(str(error))
    except Exception as error:
        message = _describe_system_error(error)
        if debug or message is None:
            raise
        return _fail(message)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    command = arguments[0]
    if command in ("-V", "--version"):
        print(f"iada {__version__}")
        return 0
    if command not in COMMANDS:
        from iada.errors import did_you_mean

        return _fail(f"there is no command `{command}`. {did_you_mean(command, COMMANDS)}")
    return _run(COMMANDS[command][0], arguments[1:])


def _run(module_name: str, arguments: list[str]) -> int:
    import importlib

    # Read by `transformers` when a command imports it; a value set by the user stays.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with _logging():
        module = importlib.import_module(module_name)
        module.run(module.parse(arguments))
    return 0


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Send our own messages, and others' warnings, to stderr for as long as a command runs."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    root, ours = logging.getLogger(), logging.getLogger("iada")
    level = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(level)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {description}" for name, (_, description) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: iada COMMAND [ARGUMENTS]",
            "",
            "Document-level machine translation with importance-aware data augmentation.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  -h, --help     show this message, or the options of a command: iada train --help",
            "  -V, --version  show the version",
            "  --debug        show the traceback of an error",
        ]
    )


def _describe_system_error(error: Exception) -> str | None:
    """Say in one line what the system refused; None if it looks like a defect of ours."""
    text = str(error).strip()
    if found := re.search(r"\(os error (\d+)\)", text):
        # So the libraries that are written in Rust, safetensors and tokenizers, report it.
        error = OSError(int(found[1]), os.strerror(int(found[1])))
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        if (advice := _SYSTEM_LIMITS.get(error.errno or 0)) is not None:
            return f"{where}{error.strerror}. {advice}, then give the same command again."
        if isinstance(error, _FILE_ERRORS) and error.filename is not None:
            return f"{where}{error.strerror}."
        return None
    # PyTorch has no exception of its own for the memory of the CPU, and importing it takes long.
    if isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text:
        told = f" ({text.splitlines()[0]})" if text else ""
        return (
            f"Out of memory{told}. Lower `train.max_tokens` or `decode.max_tokens`, or use a "
            "smaller model, then give the same command again."
        )
    return None


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1
