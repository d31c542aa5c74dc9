"""Start from the weights of a finished run: what fits by name is loaded, the rest stays random.

Every architecture keeps the parameter names of the stock model, so that a sentence-level run, or
Doc2Doc, loads into each of them and only the context modules are new. The loaded weights may learn
at a smaller rate than the new ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from iada.errors import ModelError
from iada.models.document import DocumentModel


@dataclass(frozen=True)
class StartReport:
    """What became of the weights of another run."""

    loaded: tuple[str, ...]
    """Parameters that have their values from it."""
    new: tuple[str, ...]
    """Parameters that it does not have; they stay random."""
    unused: tuple[str, ...]
    """Its weights that have no place in the model."""

    def describe(self, source: Path) -> str:
        """Say it in one line."""
        text = f"{source}: {len(self.loaded)} weights loaded, {len(self.new)} new"
        if self.new:
            text += f" ({', '.join(_modules(self.new))})"
        if self.unused:
            text += f", {len(self.unused)} not used ({', '.join(_modules(self.unused))})"
        return f"{text}."


def load_weights(model: nn.Module, folder: Path) -> StartReport:
    """Load the weights of a saved model into another, by name.

    Args:
        model: what to load them into.
        folder: where `save_pretrained` has put a model.

    Raises:
        ModelError: there is no such model, its sizes differ, or nothing of it fits.
    """
    path = folder / "model.safetensors"
    try:
        saved = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    own = model.state_dict()
    fitting = {name: value for name, value in saved.items() if name in own}
    # The embeddings first: their shape says best what is wrong.
    for name, value in sorted(fitting.items(), key=lambda item: item[0] != "model.shared.weight"):
        if value.shape != own[name].shape:
            raise ModelError(_describe_mismatch(folder, name, value.shape, own[name].shape))
    if not fitting:
        raise ModelError(f"{folder} has no weight that this model knows. Start from another run.")
    with torch.no_grad():
        for name, value in fitting.items():
            own[name].copy_(value)
    if isinstance(model, DocumentModel) and not any("stage_one." in name for name in saved):
        model.keep_stage_one()
    # Tied weights are saved under one of their names and listed once here.
    places = {own[name].data_ptr() for name in fitting}
    trained = [name for name, one in model.named_parameters() if one.requires_grad]
    return StartReport(
        loaded=tuple(name for name in trained if own[name].data_ptr() in places),
        new=tuple(name for name in trained if own[name].data_ptr() not in places),
        unused=tuple(sorted(saved.keys() - fitting.keys())),
    )


def slow_down(
    optimizer: torch.optim.Optimizer, model: nn.Module, loaded: Iterable[str], rate: float
) -> None:
    """Let some parameters learn at a smaller rate; before a schedule is made.

    Args:
        optimizer: of the model.
        model: whose parameters they are.
        loaded: names of the parameters to slow down.
        rate: factor of their learning rate.
    """
    names = set(loaded)
    slow = {id(parameter) for name, parameter in model.named_parameters() if name in names}
    for group in list(optimizer.param_groups):
        chosen = [one for one in group["params"] if id(one) in slow]
        group["params"] = [one for one in group["params"] if id(one) not in slow]
        if chosen:
            # Groups of full rate come first: the rate of the first is what is logged.
            optimizer.add_param_group({**group, "params": chosen, "lr": group["lr"] * rate})


def _describe_mismatch(folder: Path, name: str, found: torch.Size, own: torch.Size) -> str:
    if name == "model.shared.weight" and found[0] != own[0]:
        return (
            f"{folder} has a vocabulary of {found[0]} pieces, this run one of {own[0]}. Start from "
            "a run with the same corpus and `subwords`."
        )
    return (
        f"{folder} has {name} of shape {tuple(found)}, this run {tuple(own)}. Start from a run "
        "with the same `model` sizes."
    )


def _modules(names: Iterable[str]) -> list[str]:
    """Return the kinds of modules that parameters belong to, without numbers of layers."""
    found = {
        ".".join(part for part in name.split(".")[:-1] if not part.isdigit()).removeprefix("model.")
        for name in names
    }
    return sorted(found)
