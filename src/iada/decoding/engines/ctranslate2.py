"""Search with CTranslate2 on a model that `iada export` converted.

It reads a target prefix one token at a time, so it is the fastest where there is none. It divides
scores by the length of prefix and translation together; here they are divided by the length of the
translation alone, and hypotheses are sorted by that score.

A length limit holds for a whole call, but a translation must not depend on the rest of its batch.
So a call gets the lowest limit of its requests, and requests whose search ran into it are searched
again with their own limit. Such a search can be recognised: all open beams are cut at the limit and
count as hypotheses, and since fewer than requested had ended, one of them is among those that are
returned. With a limit above its own, a request would not show whether it went beyond.

In int8 the padding of a call changes rounding errors of attention, which the rounding to integers
amplifies until other words are chosen. So there each request is a batch of its own, unless
`decode.exact_batches` is off, and threads work on different requests instead of one.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import BOS, MASK, PAD, SEP, SubwordEncoding
from iada.decoding.engines.interface import (
    EngineSetup,
    Hypothesis,
    Request,
    model_fingerprint,
)
from iada.errors import ModelError

EXPORT_FILE = "iada_export.json"
"""In the folder of an export: which model it was made from."""


def exported_fingerprint(folder: Path) -> str | None:
    """Return the fingerprint of the model that an export was made from; None if there is none."""
    try:
        found = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found.get("model")) if isinstance(found, dict) else None


def has_advantage(setup: EngineSetup) -> bool:
    """Tell whether there is a current export and this engine is the fastest one to use it.

    It is where no target prefix is read and sentences may share a call.
    """
    may_be_fastest = not setup.has_prefix and not setup.decode.one_by_one
    return may_be_fastest and _is_current(setup)


def open_ctranslate2(setup: EngineSetup) -> "CTranslate2Engine":
    """Open the export of a model.

    Raises:
        ModelError: there is no export, or it was made from another model.
    """
    exported, precision = setup.exported, setup.decode.precision
    if exported is None or exported_fingerprint(exported) is None:
        raise ModelError(
            f"There is no exported model in {exported}. Make one with `iada export RUN "
            f"--quantization {precision}`, or choose another engine."
        )
    if not _is_current(setup):
        raise ModelError(
            f"{exported} was made from another model. Make it again with `iada export RUN "
            f"--quantization {precision}`."
        )
    return CTranslate2Engine(exported, setup.subwords, setup.decode)


def _is_current(setup: EngineSetup) -> bool:
    """Tell whether the folder holds an export of this very model."""
    if setup.exported is None or (found := exported_fingerprint(setup.exported)) is None:
        return False
    return found == model_fingerprint(setup.model)


# Few translations are longer than this share of their limit.
_USUAL_SHARE = 0.8


class CTranslate2Engine:
    """Search with `ctranslate2.Translator`."""

    name = "ctranslate2"

    def __init__(self, folder: Path, subwords: SubwordEncoding, config: DecodeConfig) -> None:
        """Load a converted model.

        Args:
            folder: what `export_model` wrote.
            subwords: the tokenizer of the model.
            config: how to search.
        """
        # Slow to import; the other engines work without it.
        import ctranslate2

        self.subwords = subwords
        self.config = config
        self.pieces = subwords.pieces(range(len(subwords)))
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}
        device = "cuda" if torch.cuda.is_available() else "cpu"
        threads = torch.get_num_threads()
        parallel = threads if config.one_by_one and device == "cpu" else 1
        self.translator = ctranslate2.Translator(
            str(folder),
            device=device,
            compute_type=config.precision,
            inter_threads=parallel,
            intra_threads=threads // parallel,
        )

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first."""
        self._check(requests)
        groups: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            least = _steps(request, request.min_new) if request.min_new else 0
            groups[request.may_separate, least].append(number)
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for (_, least), numbers in groups.items():
            for part in _split_by_limit(requests, numbers):
                limit = min(_limit(requests[i]) for i in part)
                retries: dict[int, list[int]] = defaultdict(list)
                for number, hypotheses in self._search(requests, part, least, limit):
                    found[number] = hypotheses
                    request = requests[number]
                    longest = max(len(hypothesis.tokens) for hypothesis in hypotheses)
                    if limit < _limit(request) and _steps(request, longest) >= limit:
                        retries[_limit(request)].append(number)
                for own, same in retries.items():
                    for number, hypotheses in self._search(requests, same, least, own):
                        found[number] = hypotheses
        return [hypotheses[: self.config.n_best] for hypotheses in found]

    def _check(self, requests: Sequence[Request]) -> None:
        """Refuse what only the other engines can do."""
        eos = self.subwords.special.eos
        for request in requests:
            if request.end not in (None, eos):
                piece = self.pieces[request.end]
                raise ModelError(
                    f"The engine `ctranslate2` ends every translation with `</s>`, but this one "
                    f"must end with `{piece}`. Choose `prefill` or `huggingface`."
                )

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
            prefix_length = len(request.prefix) - 1
            hypotheses = [
                self._hypothesis(pieces, score, prefix_length=prefix_length, most=most)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
            found.append((number, hypotheses))
        return found

    def _hypothesis(
        self, pieces: Sequence[str], score: float, *, prefix_length: int, most: int
    ) -> Hypothesis:
        """Remove the prefix from tokens and score; a hypothesis that was cut has no `</s>`."""
        end = len(pieces) < most
        ratio = (len(pieces) + end) / max(len(pieces) - prefix_length + end, 1)
        tokens = tuple(self.ids[piece] for piece in pieces[prefix_length:])
        return Hypothesis(tokens, score * ratio**self.config.length_penalty)


def _split_by_limit(requests: Sequence[Request], numbers: Sequence[int]) -> list[list[int]]:
    """Split requests so that in each part most searches end before its lowest limit."""
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
    """Return the number of decoding steps that generate so many new tokens."""
    return len(request.prefix) - 1 + new
