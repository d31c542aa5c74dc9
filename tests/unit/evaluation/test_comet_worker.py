"""The worker itself, run by an interpreter that has a stand-in for COMET, or none."""

import ast
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.errors import ModelError
from iada.evaluation.comet import PROTOCOL, WORKER, CometProcess
from iada.evaluation.metrics import Segment

SEGMENTS = [Segment("Hund", "dog", "the dog"), Segment("Katze", "", "cat"), Segment("a", "b", "\n")]

# What the worker uses of COMET 2.2, and nothing else.
COMET = """
import os, sys
__version__ = "2.2.7"
print("a library that prints")
os.write(1, b"a library that writes to the descriptor\\n")
class Tokenizer:
    sep_token = "</s>"
    def __call__(self, texts, truncation):
        assert truncation is False
        return {"input_ids": [[0, *range(len(text.split())), 2] for text in texts]}
class Encoder:
    max_positions = 12
    size_separator = 2
    tokenizer = Tokenizer()
class Model:
    encoder = Encoder()
    use_context = False
    if not OLD:
        def enable_context(self): self.use_context = not UNIFIED
    class hparams: pass
    def predict(self, samples, batch_size, gpus, progress_bar):
        assert (batch_size, gpus, progress_bar) == (16, 0, False)
        if samples[0]["src"] == "break": raise RuntimeError("out of memory")
        print("predicting")
        if self.use_context:
            assert samples[0]["src"] == "Hund", samples
            assert samples[1]["src"] == "Hund </s> Katze", samples
            assert samples[1]["ref"] == "the dog </s> cat", samples
        return {"scores": [len(sample["mt"]) for sample in samples]}
def load_from_checkpoint(path, **options):
    if os.path.getsize(path): raise ValueError("not a checkpoint")
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    if OLD and options: raise TypeError("unexpected keyword argument")
    assert OLD or options == {"local_files_only": True}
    if UNIFIED: Model.hparams.input_segments = ["mt", "src"]
    return Model()
"""
TORCH = "class cuda:\n    is_available = staticmethod(lambda: False)\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    checkpoint = tmp_path / "toy" / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    return tmp_path / "toy"


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., Path]:
    """Make an interpreter that finds a stand-in for COMET, or none."""

    def make(**switches: bool) -> Path:
        folder = tmp_path / "site"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if switches:
            values = "".join(f"{name} = {value}\n" for name, value in switches.items())
            (folder / "comet.py").write_text(values + COMET, encoding="utf-8")
        (folder / "torch.py").write_text(TORCH, encoding="utf-8")
        script = tmp_path / "python"
        # Without the site packages of the tests, where there may be a `comet`.
        command = f'PYTHONPATH="{folder}" exec "{sys.executable}" -S "$@"'
        script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        script.chmod(0o755)
        return script

    return make


@pytest.mark.parametrize("old", [False, True])
def test_the_worker_itself_scores_with_comet(
    environment: Callable[..., Path], model: Path, old: bool, caplog: pytest.LogCaptureFixture
) -> None:
    python = environment(OLD=old, UNIFIED=False)
    with CometProcess(EvaluateConfig(comet_python=python, comet_model=model)) as process:
        assert process.score(SEGMENTS) == [3, 0, 1]
        assert not caplog.records
        with pytest.raises(ModelError, match="failed: RuntimeError: out of memory"):
            process.score([Segment("break", "x", "y")])
        # It lives on, and says what it could not read: nine words and two more tokens.
        process.score([Segment("a", "b", "c"), Segment("a", "b " * 9, "c " * 8)])
    assert "field mt of segment 2 has 11 tokens and the model reads 10" in caplog.text
    assert "part of 1 of 2" in caplog.text


def test_a_unified_model_reads_its_fields_as_one(
    environment: Callable[..., Path], model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    python = environment(OLD=False, UNIFIED=True)
    with CometProcess(EvaluateConfig(comet_python=python, comet_model=model)) as process:
        # 4 and 3 words and 5 special tokens fill the 12 places; one word more does not fit.
        process.score([Segment("a b c d", "e f g", "r " * 8)])
        assert not caplog.records
        process.score([Segment("a b c d", "e f g h", "r " * 8)])
    assert "field src+mt of segment 1 has 13 tokens and the model reads 12" in caplog.text


def test_the_worker_says_what_it_lacks(environment: Callable[..., Path], model: Path) -> None:
    config = EvaluateConfig(comet_python=environment(), comet_model=model)
    with pytest.raises(ModelError, match=r"has no usable `comet` \(ModuleNotFoundError: No module"):
        CometProcess(config)
    environment(OLD=False, UNIFIED=False)
    (model / "checkpoints" / "model.ckpt").write_text("x", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot load .* \(ValueError: not a checkpoint\)"):
        CometProcess(config)


def test_the_worker_runs_on_old_pythons_and_needs_nothing_of_ours() -> None:
    source = WORKER.read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules - {"torch"} <= sys.stdlib_module_names
    assert "from __future__ import annotations" in source
    assert f"PROTOCOL = {PROTOCOL}\n" in source


IN_CONTEXT = [
    Segment("Hund", "dog", "the dog", context=()),
    Segment("Katze", "a cat", "cat", context=(("Hund", "the dog"),)),
]


def test_context_is_put_before_the_texts_as_doc_comet_reads_it(
    environment: Callable[..., Path], model: Path
) -> None:
    python = environment(OLD=False, UNIFIED=False)
    with CometProcess(EvaluateConfig(comet_python=python, comet_model=model)) as process:
        # The hypothesis stands after the context of the reference.
        assert process.score(IN_CONTEXT) == [3, len("the dog </s> a cat")]
        # And what follows is scored alone again.
        assert process.score(SEGMENTS) == [3, 0, 1]


@pytest.mark.parametrize(
    ("switches", "match"),
    [
        ({"OLD": True, "UNIFIED": False}, "does not read context"),
        ({"OLD": False, "UNIFIED": True}, "does not average its tokens"),
    ],
)
def test_a_model_that_cannot_read_context_is_refused(
    environment: Callable[..., Path], model: Path, switches: dict[str, bool], match: str
) -> None:
    python = environment(**switches)
    with (
        CometProcess(EvaluateConfig(comet_python=python, comet_model=model)) as process,
        pytest.raises(ModelError, match=match),
    ):
        process.score(IN_CONTEXT)
