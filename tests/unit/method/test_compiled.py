"""The objective on a compiled model: hooks, position selection and GNorm's extra backward."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._functorch.config
from torch.nn import Module

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace


# The compiler looks at `.grad` of the tensors that the hooks keep.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
# As `iada.training.train.train` sets it.
@torch._functorch.config.patch(donated_buffer=False)
def test_a_compiled_model_gives_the_same_loss_and_gradients(
    tiny_model: Callable[..., Any], batch: Batch
) -> None:
    config = AugmentConfig(alpha=1.0, p_context=0.4, p_current=0.4)
    results = []
    for compiled in (False, True):
        model = tiny_model(dropout=False)
        objective = AugmentedObjective(model, config, replacement=Replace(40, range(6)))
        # `aot_eager` traces forward and backward as on a GPU, but generates no code.
        module: Any = torch.compile(model, backend="aot_eager") if compiled else None
        assert compiled == isinstance(module, Module)
        losses = objective(batch, module=module)
        losses.total.backward()
        gradients = [p.grad for p in model.parameters() if p.requires_grad]
        results.append((losses.total.detach(), gradients))
    torch.testing.assert_close(results[0], results[1])
