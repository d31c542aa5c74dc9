"""Beam search by `generate` of Transformers, for every architecture that has it.

Prefixes of different lengths are padded on the left and read in one pass. Models with absolute
decoder positions would then see shifted positions, so these are shifted back row by row; where a
model does not allow that, only prefixes of equal length share a batch. Both give what decoding
each sentence alone gives.

A model may say two things about itself: `counts_positions = True` if it finds the decoder positions
of padded rows by itself, and `window_inputs`, the names of further inputs that `generate` must pass
on, one number per window (see `Request.inputs`).
"""

import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LogitsProcessor, LogitsProcessorList

from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import SpecialIds
from iada.decoding.engines.interface import EngineSetup, Hypothesis, Request, int8_refusal
from iada.errors import ModelError

# `generate` gives hypotheses that no beam has reached a score of -1e9.
_IMPOSSIBLE = -1e8


def open_huggingface(setup: EngineSetup) -> "HuggingFaceEngine":
    """Open any encoder-decoder, in the precision it was trained in."""
    if setup.decode.precision == "int8":
        raise ModelError(int8_refusal(setup.model))
    return HuggingFaceEngine(setup.model, setup.subwords.special, setup.decode)


class GenerateEngine:
    """What all searches with `model.generate` have in common."""

    def __init__(self, model: Any, special: SpecialIds, config: DecodeConfig) -> None:
        self.model = model.eval()
        self.special = special
        self.config = config

    def options(
        self, requests: Sequence[Request], prompt: int, ends: Sequence[int]
    ) -> dict[str, Any]:
        """Return the settings of `generate` for some requests.

        Args:
            requests: what to search for.
            prompt: length of the given beginnings, padding included.
            ends: tokens that end a translation; the first is the one that limits force.
        """
        special, is_greedy = self.special, self.config.beam == 1
        limits = _Limits(requests, prompt, ends, special.sep, self.model.device)
        return dict(
            num_beams=self.config.beam,
            num_return_sequences=self.config.n_best,
            do_sample=False,
            # `generate` warns of a length penalty in greedy search.
            length_penalty=None if is_greedy else self.config.length_penalty,
            early_stopping=False,
            # Checkpoints may force a language code, which the prefix has already.
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=None,
            max_new_tokens=max(r.max_new for r in requests) + 1,
            pad_token_id=special.pad,
            eos_token_id=list(ends),
            suppress_tokens=[i for i in special.of_target if i not in (*ends, special.sep)],
            logits_processor=LogitsProcessorList([limits]),
            return_dict_in_generate=True,
            output_scores=not is_greedy,
            output_logits=is_greedy,
        )

    def hypotheses(
        self, found: Any, prompt: int, ends: Sequence[int]
    ) -> list[list[tuple[list[int], float]]]:
        """Return for every request its translations, end tokens included, with their scores."""
        count = self.config.n_best
        generated = [_until_end(row, ends) for row in found.sequences[:, prompt:].tolist()]
        if self.config.beam == 1:
            scores = self._greedy_scores(found.logits, generated)
        else:
            scores = found.sequences_scores.tolist()
        scored = list(zip(generated, scores, strict=True))
        return [
            [one for one in scored[start : start + count] if one[1] > _IMPOSSIBLE]
            for start in range(0, len(scored), count)
        ]

    def pad(self, rows: Sequence[Sequence[int]], *, left: bool) -> tuple[Tensor, Tensor]:
        """Return rows of tokens as one tensor, padded on one side, and their mask."""
        width = max(len(row) for row in rows)
        ids = torch.full((len(rows), width), self.special.pad)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            where = slice(width - len(row), width) if left else slice(0, len(row))
            ids[number, where] = torch.tensor(row)
            mask[number, where] = 1
        return ids.to(self.model.device), mask.to(self.model.device)

    def _greedy_scores(
        self, logits: Sequence[Tensor], generated: Sequence[Sequence[int]]
    ) -> list[float]:
        """Score the one hypothesis of each row as beam search would."""
        steps = torch.stack([step.float().log_softmax(dim=-1) for step in logits], dim=1)
        scores = []
        for row, tokens in zip(steps, generated, strict=True):
            total = sum(float(row[i, token]) for i, token in enumerate(tokens[: len(row)]))
            scores.append(total / len(tokens) ** self.config.length_penalty)
        return scores


class HuggingFaceEngine(GenerateEngine):
    """Search with `model.generate`."""

    name = "huggingface"

    def __init__(self, model: Any, special: SpecialIds, config: DecodeConfig) -> None:
        super().__init__(model, special, config)
        self.window_inputs: tuple[str, ...] = getattr(model, "window_inputs", ())
        self._positions: nn.Module | None = None
        if not getattr(model, "counts_positions", False):
            self._positions = getattr(model.get_decoder(), "embed_positions", None)
        # Marian, BART and mBART take position ids; T5 has relative positions only.
        self.can_pad = self._positions is None or _takes_position_ids(self._positions)

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first."""
        # `generate` knows one end token per call.
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            length = 0 if self.can_pad else len(request.prefix)
            groups[request.end_token(self.special), length].append(number)
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for (end, _), numbers in groups.items():
            hypotheses = self._search([requests[i] for i in numbers], end)
            for number, best in zip(numbers, hypotheses, strict=True):
                found[number] = best
        return found

    @torch.inference_mode()
    def _search(self, requests: Sequence[Request], end: int) -> list[list[Hypothesis]]:
        """Search for requests with the same end token in one call of `generate`."""
        source, source_mask = self.pad([r.source for r in requests], left=False)
        prefix, prefix_mask = self.pad([r.prefix for r in requests], left=True)
        # `generate` repeats them for every beam, as it does with the masks.
        further = {
            name: torch.tensor([r.inputs.get(name, 0) for r in requests], device=source.device)
            for name in self.window_inputs
        }
        with self._shift_positions((prefix_mask == 0).sum(dim=1)):
            found = self.model.generate(
                input_ids=source,
                attention_mask=source_mask,
                decoder_input_ids=prefix,
                decoder_attention_mask=prefix_mask,
                **self.options(requests, prefix.shape[1], [end]),
                **further,
            )
        return [
            [Hypothesis(tuple(tokens[:-1]), score) for tokens, score in one]
            for one in self.hypotheses(found, prefix.shape[1], [end])
        ]

    @contextmanager
    def _shift_positions(self, padding: Tensor) -> Iterator[None]:
        """Count decoder positions from the first real token of each row."""
        if self._positions is None or not bool(padding.any()):
            yield
            return
        shift = padding.repeat_interleave(self.config.beam).unsqueeze(1)

        def hook(module: Any, _: Any, kwargs: dict[str, Any], __: Tensor) -> Tensor:
            # Looked up here: BART's own lookup takes positions of one row only. BART and mBART
            # begin their table at an offset.
            positions = (kwargs["position_ids"] - shift).clamp(min=0)
            return nn.functional.embedding(positions + getattr(module, "offset", 0), module.weight)

        handle = self._positions.register_forward_hook(hook, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()


class _Limits(LogitsProcessor):
    """Keep each row within its own length limits, and to the tokens it may generate."""

    def __init__(
        self,
        requests: Sequence[Request],
        prompt: int,
        ends: Sequence[int],
        separator: int,
        device: Any,
    ) -> None:
        self.most = torch.tensor([r.max_new for r in requests], device=device)
        self.least = torch.tensor([r.min_new for r in requests], device=device)
        self.may_separate = torch.tensor(
            [r.may_separate or separator in ends for r in requests], device=device
        )
        self.prompt = prompt
        self.ends = list(ends)
        self.separator = separator

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        beams = scores.shape[0] // len(self.most)
        generated = input_ids.shape[1] - self.prompt
        is_full = (generated >= self.most).repeat_interleave(beams)
        is_short = (generated < self.least).repeat_interleave(beams)
        others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        others[self.ends] = False
        scores = scores.masked_fill(is_short[:, None] & ~others, -torch.inf)
        # A translation that is full ends in the proper way.
        others[self.ends[1:]] = True
        scores = scores.masked_fill(is_full[:, None] & others, -torch.inf)
        no_separator = ~self.may_separate.repeat_interleave(beams)
        separator = torch.zeros_like(others)
        separator[self.separator] = True
        return scores.masked_fill(no_separator[:, None] & separator, -torch.inf)


def _until_end(tokens: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the tokens up to the first end token, which is added where a limit cut it off."""
    for place, token in enumerate(tokens):
        if token in ends:
            return list(tokens[: place + 1])
    return [*tokens, ends[0]]


def _takes_position_ids(positions: nn.Module) -> bool:
    # The signature, not the code object: Marian's `forward` is wrapped by `torch.no_grad`, and
    # M2M100's has a local variable of that name.
    takes = "position_ids" in inspect.signature(positions.forward).parameters
    return takes and isinstance(positions, nn.Embedding)
