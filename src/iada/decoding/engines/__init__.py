"""Search engines, and the table from which one is chosen.

A new engine is a file with a class that has `name` and `search` (see `interface.Engine`), a
function that opens it, and a line in `ENGINES`. Its name also goes into `EngineName` of
`iada.config.decode`, which knows the names without importing anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import MarianMTModel

from iada.decoding.engines.causal import open_causal
from iada.decoding.engines.ctranslate2 import has_advantage, open_ctranslate2
from iada.decoding.engines.huggingface import open_huggingface
from iada.decoding.engines.interface import Engine, EngineSetup
from iada.decoding.engines.prefill.engine import can_follow, has_known_decoder, open_prefill
from iada.errors import ModelError


@dataclass(frozen=True)
class EngineEntry:
    """A line of the table."""

    models: tuple[type, ...] | None
    """Classes of the models that it takes, subclasses excluded; None means every
    encoder-decoder, or every decoder-only model."""
    open: Callable[[EngineSetup], Engine]
    """Returns the engine; raises `ModelError` if something else that it needs is missing."""
    has_advantage: Callable[[EngineSetup], bool] = lambda _: True
    """Whether `auto` should take it rather than an engine below it in the table."""
    causal: bool = False
    """Whether it searches with decoder-only models rather than with encoder-decoders."""
    ensembles: bool = False
    """Whether it averages the probabilities of several models."""

    also: Callable[[Any], bool] = lambda _: False
    """Whether it takes a model of another class all the same."""

    def takes(self, model: Any) -> bool:
        """Tell whether the engine can search with a model."""
        if _is_causal(model) != self.causal:
            return False
        return self.models is None or type(model) in self.models or self.also(model)


ENGINES: dict[str, EngineEntry] = {
    "ctranslate2": EngineEntry((MarianMTModel,), open_ctranslate2, has_advantage),
    "prefill": EngineEntry(
        (MarianMTModel,), open_prefill, can_follow, ensembles=True, also=has_known_decoder
    ),
    "huggingface": EngineEntry(None, open_huggingface),
    "causal": EngineEntry(None, open_causal, causal=True),
}
"""All engines; `auto` takes the first that takes the model and has an advantage."""


def choose_engine(setup: EngineSetup) -> Engine:
    """Open the engine that `decode.engine` names, or the one that `auto` finds in the table."""
    model, name = setup.model, setup.decode.engine
    if setup.ensemble:
        return _open_ensemble(setup)
    if name == "auto":
        applies = (key for key, e in ENGINES.items() if e.takes(model) and e.has_advantage(setup))
        return ENGINES[next(applies)].open(setup)
    entry = ENGINES[name]
    if not entry.takes(model):
        kind = "a decoder-only model" if entry.causal else "an encoder-decoder"
        if entry.models is not None:
            kind = f"a stock {' or '.join(kind.__name__ for kind in entry.models)}"
        raise ModelError(
            f"The engine `{name}` takes {kind}, but this is a {type(model).__name__}. "
            f"Choose `{'causal' if _is_causal(model) else 'huggingface'}`."
        )
    return entry.open(setup)


def _open_ensemble(setup: EngineSetup) -> Engine:
    """Open an engine that averages, or say why there is none."""
    able = {name: entry for name, entry in ENGINES.items() if entry.ensembles}
    asked = setup.decode.engine
    if asked not in ("auto", *able):
        raise ModelError(
            f"The engine `{asked}` searches with one model at a time. For an ensemble choose "
            f"`{'` or `'.join(able)}`, or `auto`."
        )
    kinds = {type(model) for model in (setup.model, *setup.ensemble)}
    if len(kinds) > 1:
        names = " and a ".join(sorted(kind.__name__ for kind in kinds))
        raise ModelError(
            f"An ensemble needs models of one architecture, but these are a {names}. Choose runs "
            "with the same `model.architecture`."
        )
    for name, entry in able.items():
        if asked in ("auto", name) and entry.takes(setup.model):
            return entry.open(setup)
    raise ModelError(
        f"An ensemble needs the engine `{'` or `'.join(able)}`, which does not take a "
        f"{type(setup.model).__name__}: only stock Marian models and the document-level ones that "
        "are built on them. Translate with one run."
    )


def _is_causal(model: Any) -> bool:
    return not model.config.is_encoder_decoder
