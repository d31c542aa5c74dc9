"""Our own beam search for Marian's decoder and some like it: target prefixes are read in one pass.

Sources and prefixes are encoded in small groups of similar length, then the beams of all sentences
are extended together, and finished sentences leave the batch. Results are those of `generate`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import SpecialIds
from iada.decoding.engines.interface import EngineSetup, Hypothesis, Request, int8_refusal
from iada.decoding.engines.prefill.attention import Attention, CPUAttention, FixedPointAttention
from iada.decoding.engines.prefill.cpu import can_pack, with_packed_layers
from iada.decoding.engines.prefill.decoder import KeyValueCache, MarianSearchModel, merge_caches
from iada.decoding.engines.prefill.ensemble import SearchEnsemble
from iada.decoding.engines.prefill.int8 import is_available, with_int8_layers
from iada.decoding.engines.prefill.search import BeamSearch, Candidate, Rules, top_tokens
from iada.decoding.engines.prefill.window_decoder import WINDOW_DECODERS, has_window_decoder
from iada.errors import ModelError
from iada.models.document import DocumentModel
from iada.runs.environment import cpu_multiplies_bf16

# Padded tokens of one side that are encoded at once: enough for full speed, and little padding.
_GROUP_TOKENS = 768
# Rows whose logits exist at the same time.
_LOGIT_ROWS = 160
# Steps between two searches for finished sentences and dead cache entries to remove.
_TIDY_INTERVAL = 4


def has_known_decoder(model: Any) -> bool:
    """Tell whether a document-level model has a stock decoder or one of `WINDOW_DECODERS`."""
    is_stock = isinstance(model, DocumentModel) and model.has_stock_decoder
    return is_stock or has_window_decoder(model)


def _tells_sentences_apart(model: Any) -> bool:
    return isinstance(model, DocumentModel) and not model.has_stock_decoder


def can_follow(setup: EngineSetup) -> bool:
    """Tell whether the search knows to which sentence every token of a translation belongs."""
    return not _tells_sentences_apart(setup.model) or setup.decode.unit != "window"


def open_prefill(setup: EngineSetup) -> "PrefillEngine":
    """Open a stock model, in int8 where this machine can compute it."""
    is_int8 = setup.decode.precision == "int8"
    if is_int8 and isinstance(setup.model, DocumentModel):
        # Between its 8-bit layers attention would have to add without rounding.
        raise ModelError(int8_refusal(setup.model))
    if not can_follow(setup):
        raise ModelError(
            f"The engine `prefill` lets a {type(setup.model).__name__} write one sentence at a "
            "time, but `decode.unit` is window. Choose `huggingface`, or `decode.unit: sentence`."
        )
    if is_int8 and (setup.model.device.type != "cpu" or not is_available()):
        raise ModelError(
            "int8 needs a CPU and a PyTorch that was built with oneDNN. Set "
            "`decode.precision: float32`."
        )
    return PrefillEngine(setup.model, setup.subwords.special, setup.decode, setup.ensemble)


class PrefillEngine:
    """Search on PyTorch, with prefix and source cached once per sentence."""

    name = "prefill"

    def __init__(
        self,
        model: Any,
        special: SpecialIds,
        config: DecodeConfig,
        ensemble: Sequence[Any] = (),
    ) -> None:
        """Prepare a model.

        Args:
            model: a stock `MarianMTModel`, or a `DocumentModel` with a known decoder.
            special: ids of the special tokens.
            config: how to search.
            ensemble: further models of the same class and vocabulary, to search with as one.
        """
        self.special = special
        self.config = config
        members = [self._prepare(one) for one in (model, *ensemble)]
        self.model = members[0] if len(members) == 1 else SearchEnsemble(members)
        self.device: torch.device = model.model.decoder.embed_tokens.weight.device

    def _prepare(self, model: Any) -> MarianSearchModel:
        model.eval()
        if self.config.precision == "int8":
            dtype = torch.bfloat16 if cpu_multiplies_bf16() else torch.float32
            return MarianSearchModel(with_int8_layers(model), FixedPointAttention(dtype))
        apart = _tells_sentences_apart(model)
        search = WINDOW_DECODERS[type(model)] if apart else MarianSearchModel
        if can_pack(model):
            return search(with_packed_layers(model), CPUAttention())
        return search(model, Attention())

    @torch.inference_mode()
    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first."""
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].source))
        ordered = [requests[i] for i in order]
        searches = [
            BeamSearch(
                self.config.beam, self.config.length_penalty, r.end_token(self.special), r.max_new
            )
            for r in ordered
        ]
        hidden, cache = self._prefill(ordered)
        self._run(ordered, searches, hidden, cache)
        found: list[list[Hypothesis]] = [[] for _ in requests]
        for number, search in zip(order, searches, strict=True):
            found[number] = search.ended[: self.config.n_best]
        return found

    def _prefill(self, requests: Sequence[Request]) -> tuple[Tensor, KeyValueCache]:
        """Encode sources and read prefixes; return (rows, dim) hidden states and the cache."""
        hidden, caches = [], []
        for group in _groups([max(len(r.source), len(r.prefix)) for r in requests]):
            source = _pad([r.source for r in requests[group]], self.special.pad)
            prefix = _pad([r.prefix for r in requests[group]], self.special.pad)
            lengths = torch.tensor([len(r.prefix) for r in requests[group]])
            first = torch.tensor([r.inputs.get("first_sentence", 0) for r in requests[group]])
            is_source = torch.arange(source.shape[1]) < torch.tensor(
                [[len(r.source)] for r in requests[group]]
            )
            states, cache = self.model.prefill(
                source.to(self.device),
                is_source.to(self.device),
                prefix.to(self.device),
                lengths.to(self.device),
                first.to(self.device),
            )
            hidden.append(states)
            caches.append(cache)
        longest = max(r.max_new for r in requests)
        room = self.config.beam * min(longest, 4 * _TIDY_INTERVAL)
        return torch.cat(hidden), merge_caches(caches, room)

    def _run(
        self,
        requests: Sequence[Request],
        searches: Sequence[BeamSearch],
        hidden: Tensor,
        cache: KeyValueCache,
    ) -> None:
        """Search until every sentence is done."""
        rows = list(range(len(requests)))
        hidden = hidden[:, None]
        step = 0
        while True:
            parents, tokens = self._choose(
                [requests[i] for i in rows], [searches[i] for i in rows], hidden
            )
            alive = [place for place, i in enumerate(rows) if not searches[i].is_done]
            if not alive:
                return
            cache.reorder(parents)
            step += 1
            if step % _TIDY_INTERVAL == 0:
                if len(alive) < len(rows):
                    kept = torch.tensor(alive, device=self.device)
                    cache.select_rows(kept)
                    tokens = tokens[kept]
                    rows = [rows[place] for place in alive]
                is_live, count = cache.find_live_entries()
                if cache.length - count > count // 4:
                    cache.compact(is_live, count)
            hidden = self.model.step(tokens, cache)

    def _choose(
        self, requests: Sequence[Request], searches: Sequence[BeamSearch], hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Choose the next token of every beam.

        Args:
            requests: of the rows.
            searches: of the rows, advanced by one step unless they are done.
            hidden: (rows, beams, dim), or (rows, 1, dim) at first, when all beams are equal.

        Returns:
            (rows, beams) numbers of the beams that are extended, and (rows, beams) their tokens.
        """
        rows, beams, _ = hidden.shape
        scores, ids = self._candidates(requests, searches, hidden.flatten(0, 1), beams)
        count = scores.shape[1]
        running = [[score for score, _ in s.open[:beams]] for s in searches]
        scores = (
            scores.view(rows, beams, count) + torch.tensor(running, device=self.device)[:, :, None]
        )
        best = scores.flatten(1).topk(min(2 * self.config.beam, beams * count), dim=1)
        beam_numbers = (best.indices // count).tolist()
        tokens = ids.view(rows, -1).gather(1, best.indices).tolist()
        values = best.values.tolist()
        parents_out, tokens_out = [], []
        for row, search in enumerate(searches):
            chosen: list[Candidate] = []
            if not search.is_done:
                chosen = search.advance(
                    list(map(Candidate, values[row], beam_numbers[row], tokens[row]))
                )
            parents_out.append([c.beam for c in chosen] or [0] * self.config.beam)
            tokens_out.append([c.token for c in chosen] or [self.special.eos] * self.config.beam)
        return (
            torch.tensor(parents_out, device=self.device),
            torch.tensor(tokens_out, device=self.device),
        )

    def _candidates(
        self,
        requests: Sequence[Request],
        searches: Sequence[BeamSearch],
        hidden: Tensor,
        beams: int,
    ) -> tuple[Tensor, Tensor]:
        """Return (rows times beams, candidates) log-probabilities and ids."""
        lengths = [len(search.open[0][1]) for search in searches]
        special = self.special
        pairs = list(zip(requests, lengths, strict=True))

        def per_beam(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, device=self.device).repeat_interleave(beams)

        rules = Rules(
            forbidden=torch.tensor(list(special.of_target), device=self.device),
            end=per_beam([r.end_token(special) for r in requests]),
            separator=special.sep,
            may_separate=per_beam([r.may_separate for r in requests]),
            may_end=per_beam([length >= r.min_new for r, length in pairs]),
            must_end=per_beam([length >= r.max_new for r, length in pairs]),
        )
        found = []
        for start in range(0, len(hidden), _LOGIT_ROWS):
            part = slice(start, start + _LOGIT_ROWS)
            logits = self.model.logits(hidden[part])
            found.append(top_tokens(logits, rules.rows(part), 2 * self.config.beam))
        scores, ids = zip(*found, strict=True)
        return torch.cat(scores), torch.cat(ids)


def _groups(lengths: Sequence[int]) -> list[slice]:
    """Cut a sorted sequence into groups of at most `_GROUP_TOKENS` tokens with padding."""
    groups: list[slice] = []
    start = longest = 0
    for number, length in enumerate(lengths):
        longest = max(longest, length)
        if number > start and (number + 1 - start) * longest > _GROUP_TOKENS:
            groups.append(slice(start, number))
            start, longest = number, length
    groups.append(slice(start, len(lengths)))
    return groups


def _pad(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Return (rows, longest) ids, padded on the right."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
