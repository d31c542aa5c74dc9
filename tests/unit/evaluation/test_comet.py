"""COMET in a child process: real processes that answer, crash, hang, or talk nonsense."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.errors import ConfigError, ModelError
from iada.evaluation import comet
from iada.evaluation.comet import CometProcess, find_checkpoint, with_own_comet
from iada.evaluation.metrics import Segment

SEGMENTS = [Segment("Hund", "dog", "the dog"), Segment("Katze", "", "cat"), Segment("a", "b", "\n")]

READY = {"kind": "ready", "protocol": 1, "comet": "2.2.7", "python": "3.8.1"}
# Speaks the protocol by itself, whatever it is asked to run.
FAKE = """#!{python}
import json, os, sys, time
def say(**content): print(json.dumps(content), flush=True)
def requests():
    for line in sys.stdin: yield json.loads(line)
{body}
"""
GREET = f"say(**{READY!r})\n"
ANSWER = """
for request in requests():
    scores = [len(segment["mt"]) / 10 for segment in request["segments"]]
    say(kind="scores", id=request["id"], scores=scores)
"""

Start = Callable[..., CometProcess]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    checkpoint = tmp_path / "wmt22-comet-da" / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    return tmp_path / "wmt22-comet-da"


@pytest.fixture
def start(tmp_path: Path, model: Path) -> Start:
    """Start a process whose interpreter is a script with the given body."""

    def start_fake(body: str, *, timeout: float = 60.0) -> CometProcess:
        script = tmp_path / "interpreter"
        script.write_text(FAKE.format(python=sys.executable, body=body), encoding="utf-8")
        script.chmod(0o755)
        return CometProcess(
            EvaluateConfig(comet_python=script, comet_model=model, comet_timeout=timeout)
        )

    return start_fake


def test_scores_come_back_in_order(start: Start) -> None:
    with start(GREET + ANSWER) as process:
        assert process.score(SEGMENTS) == [0.3, 0.0, 0.1]
        assert process.score(SEGMENTS[:1]) == [0.3]
        assert process.score([]) == []
        assert process.signature == "model:wmt22-comet-da|scale:100|comet:2.2.7"


def test_many_segments_are_sent_in_parts(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(comet, "SEGMENTS_PER_REQUEST", 2)
    body = """
for request in requests():
    count = len(request["segments"])
    cut = [dict(segment=0, field="mt", tokens=600, limit=510)] if count == 1 else []
    say(kind="scores", id=request["id"], scores=[request["id"]] * count, cut=cut)
"""
    with start(GREET + body) as process:
        assert process.score(SEGMENTS) == [1, 1, 2]
    # Counted through all parts.
    assert "field mt of segment 3" in caplog.text


def test_a_request_larger_than_a_pipe_does_not_block(start: Start) -> None:
    body = """
for request in requests():
    say(kind="scores", id=request["id"], scores=[0] * len(request["segments"]))
"""
    long = Segment("x" * 200_000, "y" * 200_000, "z")
    with start(GREET + body) as process:
        assert process.score([long] * 3) == [0, 0, 0]


def test_what_was_cut_is_said(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    body = """
for request in requests():
    cut = [dict(segment=1, field="src", tokens=600, limit=510),
           dict(segment=1, field="mt", tokens=700, limit=510)]
    say(kind="scores", id=request["id"], scores=[0, 0, 0], cut=cut)
"""
    with start(GREET + body) as process:
        process.score(SEGMENTS)
    (record,) = caplog.records
    message = record.getMessage()
    assert "only a part of 1 of 3 segments" in message
    assert "field src of segment 2 has 600 tokens and the model reads 510" in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.stderr.write('no such GPU')\nos._exit(9)", r"ended with code 9.*no such GPU"),
        ("", r"ended with code 0 before it answered\. It printed nothing"),
        ("print('Loading weights')\n" + GREET, r"said 'Loading weights' where `ready`"),
        ("print('[1, 2]')", r"said '\[1, 2\]' where `ready`"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n')", r"where `ready` was expected"),
        ("say(kind='ready', protocol=2)", r"speaks protocol 2, not 1"),
        (
            "say(kind='error', reason='no_comet', message='No module named comet')",
            r"has no usable `comet` \(No module named comet\)\. Install `unbabel-comet`",
        ),
        (
            "say(kind='error', reason='no_model', message='bad file')",
            r"cannot load its model \(bad file\)",
        ),
    ],
)
def test_a_process_that_does_not_get_ready_is_explained(
    start: Start, body: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        start(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.stdin.readline(); os.kill(os.getpid(), 11)", r"ended with code -11"),
        ("say(kind='scores', id=1, scores=[0.5])", r"gave 1 scores for 3 segments"),
        ("say(kind='scores', id=1)", r"gave no scores for 3 segments"),
        ("say(kind='scores', id=1, scores=[1, 2, None])", r"not a finite number"),
        ("say(kind='scores', id=1, scores=[1, 2, True])", r"not a finite number"),
        ("say(kind='scores', id=1, scores=[1, 2, float('nan')])", r"not a finite number"),
        ("say(kind='scores', id=7, scores=[1, 2, 3])", r"answered request 7, not 1"),
        ("say(kind='error', id=1, reason='failed', message='CUDA')", r"failed: CUDA"),
        ("print('Traceback (most recent call last)')", r"said 'Traceback .* where `scores`"),
        ("print('[' * 100_000)", r"said '\[\[.* where `scores`"),
        ("print('{\"kind\": ' * 100_000)", r"where `scores` was expected"),
        ("say(kind='scores', id=1, scores=[1, 2, 3], cut=7)", r"malformed list of segments"),
        ("say(kind='scores', id=1, scores=[1, 2, 3], cut=[{}])", r"malformed list of segments"),
        (
            "say(kind='scores', id=1, scores=[1, 2, 3], cut=[dict(segment='0', field='mt', "
            "tokens=1, limit=1)])",
            r"malformed list of segments",
        ),
        # Half an answer, and then the end.
        ('sys.stdout.write(\'{"kind": "scores", "id": 1, "sco\')', r"where `scores`"),
    ],
)
def test_a_process_that_answers_wrongly_is_explained(start: Start, body: str, message: str) -> None:
    with start(GREET + body) as process, pytest.raises(ModelError, match=message):
        process.score(SEGMENTS)


@pytest.mark.parametrize("ready", [False, True])
def test_a_process_that_hangs_is_given_up_and_ended(
    start: Start, tmp_path: Path, ready: bool
) -> None:
    note = tmp_path / "pid"
    body = f"open({str(note)!r}, 'w').write(str(os.getpid()))\n"
    body += (GREET if ready else "") + "time.sleep(600)"
    # More than a pipe holds, so that writing hangs too.
    segments = [Segment("x" * 200_000, "y", "z")]
    message = r"did not answer within 2 s\. Raise"
    with pytest.raises(ModelError, match=message), start(body, timeout=2.0) as process:
        process.score(segments)
    # On a busy machine it may be ended before it has left its note.
    if note.exists() and (pid := note.read_text(encoding="utf-8")):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_what_the_interpreter_started_ends_with_it(start: Start, tmp_path: Path) -> None:
    # As with `conda run`, whose own process is not the one that works.
    inner = tmp_path / "inner.py"
    inner.write_text(
        FAKE.format(python=sys.executable, body=GREET + "time.sleep(600)"), encoding="utf-8"
    )
    body = f"import subprocess\nsubprocess.run([sys.executable, {str(inner)!r}])"
    with start(body) as process:
        pass
    assert process._process.returncode is not None


def test_only_the_end_of_its_messages_is_kept_and_shown(start: Start) -> None:
    body = """
for _ in range(2_000): sys.stderr.write("x" * 1_000 + "\\n")
sys.stderr.write("the last words")
sys.stderr.flush()
os._exit(3)
"""
    with start(GREET + body) as process:
        with pytest.raises(ModelError, match=r"the last words$") as error:
            process.score(SEGMENTS)
        assert len(process._messages) <= 65_536
    assert len(str(error.value)) < 3_000


def test_a_child_cannot_steer_the_terminal(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    body = "sys.stderr.write('\\x1b[2Jgone\\x07\\n')\nos._exit(3)"
    with pytest.raises(ModelError) as error:
        start(body)
    assert str(error.value).isprintable()
    assert r"\x1b[2Jgone\x07" in str(error.value)
    message = "say(kind='error', reason='no_model', message='\\x1b]0;title\\x07')"
    with pytest.raises(ModelError) as error:
        start(message)
    assert str(error.value).isprintable()
    cut = "[dict(segment=0, field='\\x1b[2J', tokens=6, limit=5)]"
    answer = f"for r in requests(): say(kind='scores', id=r['id'], scores=[0], cut={cut})"
    with start(GREET.replace("2.2.7", "\x1b[1m") + answer) as process:
        process.score(SEGMENTS[:1])
        assert process.signature.isprintable()
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


def test_an_endless_answer_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comet, "_LONGEST_ANSWER", 1_000)
    body = "while True: sys.stdout.write('[' * 1_000)"
    with (
        start(GREET + body) as process,
        pytest.raises(ModelError, match=r"an answer of more than 1,000 bytes"),
    ):
        process.score(SEGMENTS)


OWN = {"IADA_COMET_PYTHON": "python", "IADA_COMET_MODEL": "model"}


def test_interpreter_and_model_come_from_the_environment_and_never_from_a_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strange = EvaluateConfig(
        comet_python=Path("strange"), comet_model=Path("bad"), slide_window=3, lowercase=True
    )
    own = with_own_comet(strange, OWN)
    assert own == EvaluateConfig(
        comet_python=Path("python"), comet_model=Path("model"), slide_window=3, lowercase=True
    )
    assert not caplog.records
    assert with_own_comet(strange, {}) == EvaluateConfig(lowercase=True)
    assert "`evaluate.comet_python` of a file is never executed" in caplog.text
    with pytest.raises(ConfigError, match="must be set together"):
        with_own_comet(EvaluateConfig(), {"IADA_COMET_PYTHON": "python"})


def test_a_missing_interpreter_is_explained(model: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        config = EvaluateConfig(comet_python=path, comet_model=model)
        with pytest.raises(ConfigError, match=r"cannot be run .*Give the Python interpreter"):
            CometProcess(config)
    with pytest.raises(ConfigError, match=r"COMET needs `evaluate\.comet_python`"):
        CometProcess(EvaluateConfig())


def test_the_checkpoint_is_found_in_its_folder(model: Path) -> None:
    checkpoint = model / "checkpoints" / "model.ckpt"
    assert find_checkpoint(model) == find_checkpoint(checkpoint) == checkpoint
    (model / "other.ckpt").touch()
    with pytest.raises(ConfigError, match="holds 2 checkpoints"):
        find_checkpoint(model)
    with pytest.raises(ConfigError, match="holds 0 checkpoints"):
        find_checkpoint(model / "nowhere")
