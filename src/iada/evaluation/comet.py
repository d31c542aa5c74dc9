"""COMET in a child process, run by the interpreter of another environment.

COMET's requirements exclude ours, so its code never runs here. `comet_worker.py` does the work over
there; this module starts it, asks it line by line, and turns whatever goes wrong over there into an
error that says what to do. Nothing is downloaded: the model is a local path.
"""

import contextlib
import json
import logging
import math
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
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
_SHOWN_LINES = 5


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
        # A file, not a pipe: nobody has to read it for the worker to go on.
        self._messages = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._process = self._start(checkpoint)
        except BaseException:
            self._messages.close()
            raise
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._requests = 0
        try:
            ready = self._receive("ready")
            if ready.get("protocol") != PROTOCOL:
                raise self._failure(f"speaks protocol {ready.get('protocol')}, not {PROTOCOL}")
            name = _model_name(checkpoint)
            self._signature = f"model:{name}|scale:100|comet:{ready.get('comet')}"
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
            found = answer.get("cut", [])
            cut += [{**entry, "segment": entry["segment"] + start} for entry in found]
        if cut:
            first = cut[0]
            logger.warning(
                "COMET read only a part of %d of %d segments: field %s of segment %d has %d tokens "
                "and the model reads %d. Score shorter segments.",
                len({entry["segment"] for entry in cut}),
                len(segments),
                first["field"],
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
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            # What was still to be written has no reader any more.
            with contextlib.suppress(OSError):
                stream and stream.close()
        self._messages.close()

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
                stderr=self._messages,
                env=environment,
                # A group of its own, so that a script around the interpreter dies with it.
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"`evaluate.comet_python` is {self._python}, which cannot be run "
                f"({error.strerror}). Give the Python interpreter of an environment with "
                "`unbabel-comet`."
            ) from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

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
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("kind") not in {kind, "error"}:
            shown = line.decode("utf-8", "replace").strip()[:200]
            raise self._failure(f"said {shown!r} where `{kind}` was expected")
        if answer["kind"] == "error":
            raise self._reported(str(answer.get("reason")), str(answer.get("message")))
        return answer

    def _checked_scores(self, answer: dict[str, Any], expected: int) -> list[float]:
        scores = answer.get("scores")
        if not isinstance(scores, list) or len(scores) != expected:
            count = len(scores) if isinstance(scores, list) else "no"
            raise self._failure(f"gave {count} scores for {expected} segments")
        if not all(type(score) in {int, float} and math.isfinite(score) for score in scores):
            raise self._failure("gave a score that is not a finite number")
        return [float(score) for score in scores]

    def _reported(self, reason: str, message: str) -> ModelError:
        if reason == "no_comet":
            return ModelError(
                f"{self._python} has no usable `comet` ({message}). Install `unbabel-comet` in "
                "that environment, or set `evaluate.comet_python` to one that has it."
            )
        if reason == "no_model":
            return ModelError(
                f"COMET cannot load `evaluate.comet_model` ({message}). Give a model that was "
                "downloaded whole, its encoder included; nothing is downloaded here."
            )
        return self._failure(f"failed: {message}")

    def _failure(self, what: str) -> ModelError:
        """Describe a failure, with the last lines that the worker printed."""
        messages = Path(self._messages.name).read_bytes().decode("utf-8", "replace")
        lines = messages.strip().split("\n")
        printed = " | ".join(line.strip() for line in lines[-_SHOWN_LINES:] if line.strip())
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
