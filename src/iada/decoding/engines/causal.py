"""Beam search with decoder-only models, by `generate` of Transformers.

A request is a whole prompt. Prompts of different lengths are padded on the left, and positions are
counted from the first real token, so that a sentence gets what it would get alone.

What is reused: all of a prompt but its last token is read once for each sentence, and its keys and
values are copied to the beams; `generate` alone would read it once for each beam. Nothing is
carried from one sentence to the next: the window moves on, and with its first pair all that follows
has new positions and a new past.

A translation ends in `</s>`, or with a piece that holds a line break, where an untuned model ends
it; what such a piece says before the line break belongs to the translation.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.prompt import Prompt
from iada.decoding.engines.huggingface import GenerateEngine
from iada.decoding.engines.interface import EngineSetup, Hypothesis, Request
from iada.errors import ModelError

_REPEATABLE = (DynamicLayer, DynamicSlidingWindowLayer)
"""Caches of keys and values, which can be copied to beams; states of another kind are not."""


def open_causal(setup: EngineSetup) -> "CausalEngine":
    """Open any decoder-only model, in the precision it was trained in."""
    if setup.decode.precision == "int8":
        raise ModelError(
            f"A {type(setup.model).__name__} cannot be translated in int8: only stock models can "
            "(MarianMTModel). Set `decode.precision: float32`."
        )
    return CausalEngine(setup)


class CausalEngine(GenerateEngine):
    """Search with `model.generate`, the prompt read once."""

    name = "causal"

    def __init__(self, setup: EngineSetup) -> None:
        super().__init__(setup.model, setup.subwords.special, setup.decode)
        stops = setup.frame.stops if isinstance(setup.frame, Prompt) else ()
        self.ends = (self.special.eos, *stops)
        self.reads_once = setup.decode.beam > 1
        """Whether beams share the reading of the prompt."""
        self._kept = _before_line_breaks(setup.subwords, stops)
        decoder = self.model.get_decoder()
        self._takes_positions = "position_ids" in inspect.signature(decoder.forward).parameters

    @torch.inference_mode()
    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first."""
        prompt, mask = self.pad([r.prefix for r in requests], left=True)
        length = prompt.shape[1]
        found = self.model.generate(
            input_ids=prompt,
            attention_mask=mask,
            past_key_values=self._read(prompt, mask) if self.reads_once else None,
            **self.options(requests, length, self.ends),
        )
        return [
            [Hypothesis(self._spoken(tokens), score) for tokens, score in one]
            for one in self.hypotheses(found, length, self.ends)
        ]

    def _read(self, prompt: Tensor, mask: Tensor) -> DynamicCache | None:
        """Return keys and values of all but the last token, for every beam; None if none can be."""
        cache = DynamicCache(config=self.model.config)
        if prompt.shape[1] < 2 or not all(type(layer) in _REPEATABLE for layer in cache.layers):
            return None
        inputs: dict[str, Any] = {"input_ids": prompt[:, :-1], "attention_mask": mask[:, :-1]}
        if self._takes_positions:
            positions = (mask.cumsum(dim=1) - 1).masked_fill(mask == 0, 0)
            inputs["position_ids"] = positions[:, :-1]
        self.model.get_decoder()(**inputs, past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(self.config.beam)
        return cache

    def _spoken(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return a translation without what ends it."""
        *said, last = tokens
        return (*said, *self._kept.get(last, ()))


def _before_line_breaks(
    subwords: SubwordEncoding, stops: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Return the tokens of the text before the line break, of each piece that has any."""
    texts = {stop: subwords.joined([stop]).partition("\n")[0].rstrip() for stop in stops}
    return {
        stop: tuple(subwords.encode_markup(text))
        for stop, text in texts.items()
        if text and "\ufffd" not in text
    }
