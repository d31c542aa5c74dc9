"""Score segments with COMET, in an environment of its own: one JSON object per line in and out.

Run by the interpreter that has `comet` installed, never imported by `iada`: COMET's requirements
and ours exclude each other. So this file imports nothing of `iada`, and keeps to the syntax of
Python 3.8, the oldest that COMET runs on. The only argument is the path of the checkpoint.

First the worker says `ready`, with its versions. Then it answers each line of standard input, of
kind `score` with an `id`, a `batch_size` and `segments` of `src`, `mt` and `ref`, by `scores` with
the same id. With `contexts`, pairs of source and reference for each segment, it scores as Doc-COMET
does. Failures are reported as `error`, with a reason and a message. It ends when its input
ends.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from typing import Any, TextIO

PROTOCOL = 1
FIELDS = ("src", "mt", "ref")


def main() -> int:
    """Load the model, then answer requests until the input ends."""
    answers = _private_stdout()
    try:
        comet: Any = importlib.import_module("comet")
    except Exception as error:
        _say(answers, {"kind": "error", "reason": "no_comet", "message": _describe(error)})
        return 3
    try:
        model = _load(comet, sys.argv[1])
    except Exception as error:
        _say(answers, {"kind": "error", "reason": "no_model", "message": _describe(error)})
        return 4
    ready = {
        "kind": "ready",
        "protocol": PROTOCOL,
        "comet": str(getattr(comet, "__version__", "unknown")),
        "python": platform.python_version(),
    }
    _say(answers, ready)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            segments, contexts = request["segments"], request.get("contexts")
            if contexts is not None:
                segments = _in_context(model, segments, contexts)
            answer = _score(model, segments, int(request["batch_size"]))
        except Exception as error:
            answer = {"kind": "error", "reason": "failed", "message": _describe(error)}
        model.use_context = False
        answer["id"] = request["id"]
        _say(answers, answer)
    return 0


def _private_stdout() -> TextIO:
    """Keep standard output for answers; whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _say(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _describe(error: Exception) -> str:
    return type(error).__name__ + ": " + str(error)


def _load(comet: Any, checkpoint: str) -> Any:
    try:
        return comet.load_from_checkpoint(checkpoint, local_files_only=True)
    except TypeError:
        # Older releases know no such argument; the environment forbids downloads anyway.
        return comet.load_from_checkpoint(checkpoint)


def _score(model: Any, segments: list[dict[str, str]], batch_size: int) -> dict[str, Any]:
    import torch

    gpus = 1 if torch.cuda.is_available() else 0
    output = model.predict(segments, batch_size=batch_size, gpus=gpus, progress_bar=False)
    return {
        "kind": "scores",
        "scores": [float(score) for score in output["scores"]],
        "cut": _cut(model, segments),
    }


def _in_context(
    model: Any, segments: list[dict[str, str]], contexts: list[list[tuple[str, str]]]
) -> list[dict[str, str]]:
    """Put its context before each text, and let the model average over the text alone."""
    enable = getattr(model, "enable_context", None)
    if enable is None:
        raise ValueError("this release of COMET does not read context; take a newer one")
    enable()
    if not getattr(model, "use_context", False):
        raise ValueError("this model does not average its tokens, so it cannot read context")
    separator = " " + model.encoder.tokenizer.sep_token + " "
    found = []
    for number, segment in enumerate(segments):
        context = contexts[number]
        sources = [source for source, _ in context]
        # The hypothesis follows the reference's context: what is judged is this sentence alone.
        references = [reference for _, reference in context]
        before = {"src": sources, "mt": references, "ref": references}
        found.append({key: separator.join([*before[key], segment[key]]) for key in FIELDS})
    return found


def _cut(model: Any, segments: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Find what is longer than the encoder reads: single fields, or all of them together."""
    encoder = model.encoder
    # What `prepare_sample` of COMET's encoders truncates each field to.
    limit = int(encoder.max_positions) - 2
    lengths = {
        field: _lengths(encoder, [segment[field] for segment in segments])
        for field in FIELDS
        if all(field in segment for segment in segments)
    }
    found = []
    for field, tokens in lengths.items():
        found += _over(field, tokens, limit)
    # Models of the unified kind read their fields as one sequence.
    joint = getattr(model.hparams, "input_segments", None)
    if joint is not None:
        fields = [field for field in lengths if field in joint]
        # Each field alone begins and ends with a special token.
        special = 1 + len(fields) * (int(encoder.size_separator) - 2)
        totals = [
            special + sum(lengths[field][number] for field in fields)
            for number in range(len(segments))
        ]
        found += _over("+".join(fields), totals, int(encoder.max_positions))
    return found


def _lengths(encoder: Any, texts: list[str]) -> list[int]:
    return [len(ids) for ids in encoder.tokenizer(texts, truncation=False)["input_ids"]]


def _over(field: str, tokens: list[int], limit: int) -> list[dict[str, Any]]:
    return [
        {"segment": number, "field": field, "tokens": count, "limit": limit}
        for number, count in enumerate(tokens)
        if count > limit
    ]


if __name__ == "__main__":
    sys.exit(main())
