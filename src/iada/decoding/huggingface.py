"""Beam search by `generate` of Transformers, for every architecture that has it.

Prefixes of different lengths are padded on the left and read in one pass. Models with absolute
decoder positions would then see shifted positions, so these are moved back row by row; where a
model does not allow that, only prefixes of equal length share a batch. Both give what decoding
each sentence alone gives.
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
from iada.data.subwords import SpecialIds
from iada.decoding.requests import Request


class HuggingFaceEngine:
    """Search with `model.generate`."""

    name = "huggingface"

    def __init__(self, model: Any, special: SpecialIds, config: DecodeConfig) -> None:
        self.model = model.eval()
        self.special = special
        self.config = config
        decoder = model.get_decoder()
        self._positions: nn.Module | None = getattr(decoder, "embed_positions", None)
        # Marian, BART and mBART take position ids; T5 has relative positions only.
        self.can_pad = self._positions is None or _takes_position_ids(self._positions)

    def translate(self, requests: Sequence[Request]) -> list[list[int]]:
        """Return the best hypothesis of each request."""
        groups: dict[int, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            groups[0 if self.can_pad else len(request.prefix)].append(number)
        outputs: list[list[int]] = [[] for _ in requests]
        for numbers in groups.values():
            for number, tokens in zip(
                numbers, self._search([requests[i] for i in numbers]), strict=True
            ):
                outputs[number] = tokens
        return outputs

    @torch.inference_mode()
    def _search(self, requests: Sequence[Request]) -> list[list[int]]:
        device = self.model.device
        source, source_mask = self._padded([r.source for r in requests], left=False)
        prefix, prefix_mask = self._padded([r.prefix for r in requests], left=True)
        limits = torch.tensor([r.max_new for r in requests], device=device)
        special = self.special
        with self._shifted_positions((prefix_mask == 0).sum(dim=1)):
            sequences = self.model.generate(
                input_ids=source,
                attention_mask=source_mask,
                decoder_input_ids=prefix,
                decoder_attention_mask=prefix_mask,
                num_beams=self.config.beam,
                do_sample=False,
                length_penalty=self.config.length_penalty,
                early_stopping=False,
                max_length=None,
                max_new_tokens=int(limits.max()) + 1,
                pad_token_id=special.pad,
                eos_token_id=special.eos,
                suppress_tokens=[i for i in special.all if i != special.eos],
                logits_processor=LogitsProcessorList(
                    [_LengthLimit(limits, prefix.shape[1], special.eos)]
                ),
            )
        generated = sequences[:, prefix.shape[1] :].tolist()
        return [[i for i in row if i not in special.all] for row in generated]

    def _padded(self, rows: Sequence[Sequence[int]], *, left: bool) -> tuple[Tensor, Tensor]:
        width = max(len(row) for row in rows)
        ids = torch.full((len(rows), width), self.special.pad)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            where = slice(width - len(row), width) if left else slice(0, len(row))
            ids[number, where] = torch.tensor(row)
            mask[number, where] = 1
        return ids.to(self.model.device), mask.to(self.model.device)

    @contextmanager
    def _shifted_positions(self, padding: Tensor) -> Iterator[None]:
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


class _LengthLimit(LogitsProcessor):
    """Allow nothing but the end of sentence once a row has reached its own limit."""

    def __init__(self, limits: Tensor, prompt: int, eos: int) -> None:
        self.limits = limits
        self.prompt = prompt
        self.eos = eos

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        beams = scores.shape[0] // len(self.limits)
        full = input_ids.shape[1] - self.prompt >= self.limits.repeat_interleave(beams)
        others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
        others[self.eos] = False
        return scores.masked_fill(full[:, None] & others, -float("inf"))


def _takes_position_ids(positions: nn.Module) -> bool:
    # The signature, not the code object: Marian's `forward` is wrapped by `torch.no_grad`, and
    # M2M100's has a local variable of that name.
    takes = "position_ids" in inspect.signature(positions.forward).parameters
    return takes and isinstance(positions, nn.Embedding)
