"""What identifies the weights of a model, and of the model that an export was made from.

Search with CTranslate2 on a model that `iada export` converted.

It walks through a target prefix one token at a time, so it is the fastest where there is none. It
divides scores by the length of prefix and translation together; here they are divided by the
length of the translation alone, and hypotheses are put in that order.

A limit holds for a whole call, but what a sentence becomes must not depend on others. So a call has
the lowest limit of its requests, and those whose search went up to it are asked again with their
own. Such a search shows: all beams that are open are cut there and count as hypotheses, and
since fewer than asked for had ended, one of them is among those that are returned. With a limit
above its own a request would not show whether it went beyond.

In int8 what a call pads changes rounding errors of attention, which the rounding to integers blows
up until other words are chosen. So each request is a batch of its own there, unless told otherwise,
and threads work on different requests instead of one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import BOS, MASK, PAD, SEP, Subwords
from iada.decoding.engines.interface import Hypothesis, Request

EXPORT_FILE = "iada_export.json"
"""In the folder of an export: which model it was made from."""


def model_fingerprint(model: Any) -> str:
    """Return a hash of the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def exported_fingerprint(folder: Path) -> str | None:
    """Return what identifies the model that an export was made from; None if there is none."""
    try:
        found = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found.get("model")) if isinstance(found, dict) else None


# Few translations fill more of their limit.
_USUAL_SHARE = 0.8


class CTranslate2Engine:
    """Search with `ctranslate2.Translator`."""

    name = "ctranslate2"

    def __init__(self, folder: Path, subwords: Subwords, config: DecodeConfig) -> None:
        """Load a converted model.

        Args:
            folder: what `export_model` wrote.
            subwords: the tokenizer of the model.
            config: how to search.
        """
        self.subwords = subwords
        self.config = config
        self.pieces = subwords.pieces(range(len(subwords)))
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        device = "cuda" if torch.cuda.is_available() else "cpu"
        threads = torch.get_num_threads()
        side_by_side = threads if config.one_by_one and device == "cpu" else 1
        self.translator = ctranslate2.Translator(
            str(folder),
            device=device,
            compute_type=config.precision,
            inter_threads=side_by_side,
            intra_threads=threads // side_by_side,
        )

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first."""
        groups: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            least = _steps(request, request.min_new) if request.min_new else 0
            groups[request.may_separate, least].append(number)
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for (_, least), numbers in groups.items():
            for part in _parts(requests, numbers):
                limit = min(_limit(requests[i]) for i in part)
                again: dict[int, list[int]] = defaultdict(list)
                for number, hypotheses in self._search(requests, part, least, limit):
                    found[number] = hypotheses
                    request = requests[number]
                    longest = max(len(hypothesis.tokens) for hypothesis in hypotheses)
                    if limit < _limit(request) and _steps(request, longest) >= limit:
                        again[_limit(request)].append(number)
                for own, same in again.items():
                    for number, hypotheses in self._search(requests, same, least, own):
                        found[number] = hypotheses
        return [hypotheses[: self.config.n_best] for hypotheses in found]

    def _search(
        self, requests: Sequence[Request], numbers: Sequence[int], least: int, most: int
    ) -> list[tuple[int, list[Hypothesis]]]:
        """Search for requests with the same rules; the limits count steps, the prefix included."""
        chosen = [requests[i] for i in numbers]
        forbidden = [
            PAD,
            BOS,
            MASK,
            *self.subwords.tags,
            *([] if chosen[0].may_separate else [SEP]),
        ]
        results = self.translator.translate_batch(
            [[self.pieces[i] for i in request.source] for request in chosen],
            # The first token, `<s>`, is the decoder's start and no part of the prefix.
            [[self.pieces[i] for i in request.prefix[1:]] for request in chosen],
            max_batch_size=int(self.config.one_by_one),  # 0 means all in one.
            beam_size=self.config.beam,
            num_hypotheses=self.config.beam,
            length_penalty=self.config.length_penalty,
            max_input_length=0,
            max_decoding_length=max(most, 1),
            min_decoding_length=least,
            disable_unk=True,
            suppress_sequences=[[token] for token in forbidden],
            return_scores=True,
        )
        found = []
        for number, request, result in zip(numbers, chosen, results, strict=True):
            said = len(request.prefix) - 1
            hypotheses = [
                self._hypothesis(pieces, score, said=said, most=most)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
            found.append((number, hypotheses))
        return found

    def _hypothesis(
        self, pieces: Sequence[str], score: float, *, said: int, most: int
    ) -> Hypothesis:
        """Leave the prefix out of tokens and score; a hypothesis that was cut has no `</s>`."""
        end = len(pieces) < most
        ratio = (len(pieces) + end) / max(len(pieces) - said + end, 1)
        tokens = tuple(self.ids[piece] for piece in pieces[said:])
        return Hypothesis(tokens, score * ratio**self.config.length_penalty)


def _parts(requests: Sequence[Request], numbers: Sequence[int]) -> list[list[int]]:
    """Part requests so that in each part most searches end before its lowest limit."""
    parts: list[list[int]] = []
    lowest = -1
    for number in sorted(numbers, key=lambda i: _limit(requests[i])):
        request = requests[number]
        if lowest < _steps(request, round(_USUAL_SHARE * request.max_new)):
            parts.append([])
            lowest = _limit(request)
        parts[-1].append(number)
    return parts


def _limit(request: Request) -> int:
    return _steps(request, request.max_new)


def _steps(request: Request, new: int) -> int:
    """Return the number of decoding steps after which so many new tokens have been said."""
    return len(request.prefix) - 1 + new
