"""COMET in a child process, run by the interpreter of another environment.

COMET's requirements exclude ours, so its code never runs here. `comet_worker.py` does the work over
there; this module starts it, asks it line by line, and turns whatever goes wrong over there into an
error that says what to do. Nothing is downloaded: the model is a local path.

Interpreter and model are executed, so they come from the user alone: flags, or the environment
variables `IADA_COMET_PYTHON` and `IADA_COMET_MODEL`, never from a run folder or a recipe. What the
child says is not trusted either: its messages are kept in a bounded buffer, control characters are
shown as text, and answers that are too long, too deep or malformed are refused.
"""

import contextlib
import json
import logging
import math
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from iada.config.evaluate import EvaluateConfig
from iada.errors import ConfigError, ModelError
from iada.evaluation.metrics import Segment

logger = logging.getLogger(__name__)

WORKER = Path(__file__).with_name("comet_worker.py")
PROTOCOL = 1
SEGMENTS_PER_REQUEST = 1024
"""An answer comes after this many segments, and each answer may take the whole timeout."""
PYTHON_VARIABLE, MODEL_VARIABLE = "IADA_COMET_PYTHON", "IADA_COMET_MODEL"
"""Environment variables that name interpreter and model."""
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 2_000
# Bytes of the child's messages that are kept, the last ones, and of an answer that is accepted.
_MESSAGES_KEPT = 65_536
_LONGEST_ANSWER = 16_000_000


def without_comet(config: EvaluateConfig) -> EvaluateConfig:
    """Return settings without interpreter and model, and without what needs them."""
    return replace(
        config,
        comet_python=None,
        comet_model=None,
        slide_window=0,
        slide_stride=1,
        doc_comet_context=0,
    )


def with_own_comet(
    config: EvaluateConfig, environment: Mapping[str, str] | None = None
) -> EvaluateConfig:
    """Return settings with the interpreter and model that the user's environment names, if any.

    Args:
        config: settings, perhaps of a stranger; their interpreter and model are not used.
        environment: variables; by default those of this process.
    """
    variables = os.environ if environment is None else environment
    python, model = variables.get(PYTHON_VARIABLE), variables.get(MODEL_VARIABLE)
    if not python and not model:
        if config.comet_python is not None:
            logger.warning(
                "COMET is left out: `evaluate.comet_python` of a file is never executed. Give "
                "`--comet_python` and `--comet_model`, or set %s and %s.",
                PYTHON_VARIABLE,
                MODEL_VARIABLE,
            )
        return without_comet(config)
    if not python or not model:
        raise ConfigError(f"{PYTHON_VARIABLE} and {MODEL_VARIABLE} must be set together.")
    return replace(config, comet_python=Path(python), comet_model=Path(model))


class CometProcess:
    """A running COMET worker; use it in a `with` statement."""

    def __init__(self, config: EvaluateConfig) -> None:
        """Start the worker and wait until it has loaded its model.

        Args:
            config: `comet_python`, `comet_model`, `comet_timeout` and `comet_batch_size`.
        """
        if config.comet_python is None or config.comet_model is None:
            raise ConfigError("COMET needs `evaluate.comet_python` and `evaluate.comet_model`.")
        self._python = config.comet_python
        self._timeout = config.comet_timeout
        self._batch_size = config.comet_batch_size
        checkpoint = find_checkpoint(config.comet_model)
        self._process = self._start(checkpoint)
        self._messages = bytearray()
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_answers, self._read_messages)
        ]
        for reader in self._readers:
            reader.start()
        self._requests = 0
        try:
            ready = self._receive("ready")
            if ready.get("protocol") != PROTOCOL:
                raise self._failure(f"speaks protocol {ready.get('protocol')}, not {PROTOCOL}")
            name = _model_name(checkpoint)
            version = _printable(str(ready.get("comet")))[:40]
            self._signature = f"model:{name}|scale:100|comet:{version}"
        except BaseException:
            self.close()
            raise

    @property
    def signature(self) -> str:
        """Model and version; scores of different models do not compare."""
        return self._signature

    def score(self, segments: Sequence[Segment]) -> list[float]:
        """Return COMET's score of each segment; say so if any field was too long to be read."""
        scores: list[float] = []
        cut: list[dict[str, Any]] = []
        for start in range(0, len(segments), SEGMENTS_PER_REQUEST):
            chunk = segments[start : start + SEGMENTS_PER_REQUEST]
            answer = self._ask(chunk)
            scores += self._checked_scores(answer, len(chunk))
            found = self._checked_cut(answer)
            cut += [{**entry, "segment": entry["segment"] + start} for entry in found]
        if cut:
            first = cut[0]
            logger.warning(
                "COMET read only a part of %d of %d segments: field %s of segment %d has %d tokens "
                "and the model reads %d. Score shorter segments.",
                len({entry["segment"] for entry in cut}),
                len(segments),
                _printable(first["field"]),
                first["segment"] + 1,
                first["tokens"],
                first["limit"],
            )
        return scores

    def close(self) -> None:
        """End the worker and whatever it started."""
        if self._process.poll() is None:
            _kill(self._process)
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            # What was still to be written has no reader any more.
            with contextlib.suppress(OSError):
                stream and stream.close()

    def __enter__(self) -> "CometProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, checkpoint: Path) -> subprocess.Popen[bytes]:
        environment = {
            **{k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}},
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        # Not by its path, which would put its folder first: there `import comet` is this module.
        command = [str(self._python), "-c", _BOOTSTRAP, str(WORKER), str(checkpoint)]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                # A group of its own, so that a script around the interpreter dies with it.
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"COMET's interpreter is {self._python}, which cannot be run "
                f"({error.strerror}). Give the Python interpreter of an environment with "
                f"`unbabel-comet` as `--comet_python` or {PYTHON_VARIABLE}."
            ) from None

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        # One byte more than is accepted, so that a longer line is recognised; the rest is read as
        # further lines, of which none is an answer.
        while line := self._process.stdout.readline(_LONGEST_ANSWER + 1):
            self._lines.put(line)
            if len(line) > _LONGEST_ANSWER:
                break
        self._lines.put(None)

    def _read_messages(self) -> None:
        assert self._process.stderr is not None
        # Always read, so that the worker never waits for room; only the end is kept.
        while part := os.read(self._process.stderr.fileno(), _MESSAGES_KEPT):
            self._messages += part
            del self._messages[:-_MESSAGES_KEPT]

    def _ask(self, segments: Sequence[Segment]) -> dict[str, Any]:
        self._requests += 1
        request = {
            "kind": "score",
            "id": self._requests,
            "batch_size": self._batch_size,
            "segments": [
                {"src": s.source, "mt": s.translation, "ref": s.reference} for s in segments
            ],
        }
        if any(segment.context is not None for segment in segments):
            request["contexts"] = [segment.context or () for segment in segments]
        assert self._process.stdin is not None
        # A worker that hangs does not read either, and then writing would never end.
        writer = threading.Thread(
            target=_write, args=(self._process.stdin, json.dumps(request)), daemon=True
        )
        writer.start()
        answer = self._receive("scores")
        if answer.get("id") != self._requests:
            raise self._failure(f"answered request {answer.get('id')}, not {self._requests}")
        return answer

    def _receive(self, kind: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            raise self._failure(
                f"did not answer within {self._timeout:g} s. Raise `evaluate.comet_timeout` if "
                "the model is large"
            ) from None
        if line is None:
            code = self._process.wait()
            raise self._failure(f"ended with code {code} before it answered")
        if len(line) > _LONGEST_ANSWER:
            raise self._failure(f"gave an answer of more than {_LONGEST_ANSWER:,} bytes")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            # Not JSON, or nested so deeply that no honest answer is.
            answer = None
        if not isinstance(answer, dict) or answer.get("kind") not in {kind, "error"}:
            shown = line.decode("utf-8", "replace").strip()[:200]
            raise self._failure(f"said {shown!r} where `{kind}` was expected")
        if answer["kind"] == "error":
            reason, message = (str(answer.get(key)) for key in ("reason", "message"))
            raise self._reported(reason, _printable(message)[:_SHOWN_CHARACTERS])
        return answer

    def _checked_scores(self, answer: dict[str, Any], expected: int) -> list[float]:
        scores = answer.get("scores")
        if not isinstance(scores, list) or len(scores) != expected:
            count = len(scores) if isinstance(scores, list) else "no"
            raise self._failure(f"gave {count} scores for {expected} segments")
        if not all(type(score) in {int, float} and math.isfinite(score) for score in scores):
            raise self._failure("gave a score that is not a finite number")
        return [float(score) for score in scores]

    def _checked_cut(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        cut = answer.get("cut", [])
        numbers = ("segment", "tokens", "limit")
        if not isinstance(cut, list) or not all(
            isinstance(entry, dict)
            and isinstance(entry.get("field"), str)
            and all(type(entry.get(name)) is int for name in numbers)
            for entry in cut
        ):
            raise self._failure("gave a malformed list of segments that were cut")
        return cut

    def _reported(self, reason: str, message: str) -> ModelError:
        if reason == "no_comet":
            return ModelError(
                f"{self._python} has no usable `comet` ({message}). Install `unbabel-comet` in "
                "that environment, or give another one as `--comet_python`."
            )
        if reason == "no_model":
            return ModelError(
                f"COMET cannot load its model ({message}). Give one as `--comet_model` that was "
                "downloaded whole, its encoder included; nothing is downloaded here."
            )
        return self._failure(f"failed: {message}")

    def _failure(self, what: str) -> ModelError:
        """Describe a failure, with the last lines that the worker printed."""
        if self._process.poll() is not None:
            # Its last words may still be on their way.
            self._readers[1].join(timeout=1.0)
        lines = bytes(self._messages).decode("utf-8", "replace").strip().split("\n")
        shown = (_printable(line.strip()) for line in lines[-_SHOWN_LINES:] if line.strip())
        printed = " | ".join(shown)[-_SHOWN_CHARACTERS:]
        tail = f" It printed: {printed}" if printed else " It printed nothing."
        return ModelError(f"The COMET process of {self._python} {what}.{tail}")


def find_checkpoint(model: Path) -> Path:
    """Return the checkpoint file of a COMET model: itself, or the one inside its folder."""
    if model.is_file():
        return model
    found = sorted(model.rglob("*.ckpt"))
    if len(found) != 1:
        raise ConfigError(
            f"`evaluate.comet_model` is {model}, which holds {len(found)} checkpoints (*.ckpt). "
            "Give the checkpoint file itself, or a folder with exactly one."
        )
    return found[0]


# Runs the worker with neither its own folder nor the current one on the module path.
_BOOTSTRAP = (
    "import runpy, sys; sys.path[:] = [path for path in sys.path if path]; del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def _printable(text: str) -> str:
    """Show control characters as text: a child must not steer the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _write(stream: IO[bytes], request: str) -> None:
    # If the worker has ended, whoever waits for its answer learns it from its output.
    with contextlib.suppress(OSError, ValueError):
        stream.write(request.encode() + b"\n")
        stream.flush()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _model_name(checkpoint: Path) -> str:
    """Name a model by its folder: `wmt22-comet-da` of `wmt22-comet-da/checkpoints/model.ckpt`."""
    folder = checkpoint.resolve().parent
    return folder.parent.name if folder.name == "checkpoints" else folder.name
