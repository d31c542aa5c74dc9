"""Document-level machine translation with Importance-Aware Data Augmentation (IADA).

The names below are the public interface. Each is imported when it is first used, so that
`import iada` costs nothing and `iada --help` answers at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iada.analysis.importance_map import inspect
    from iada.config.method import AugmentConfig
    from iada.config.run import RunConfig
    from iada.data.documents import Document, ParallelDocument
    from iada.data.formats.readers import read_documents
    from iada.data.windows.batch import Role
    from iada.data.windows.document_windows import DocumentWindows
    from iada.decoding.translator import DocumentTranslator
    from iada.evaluation.scores import evaluate
    from iada.method.importance import importance
    from iada.method.losses import jensen_shannon, symmetric_kl
    from iada.method.objective import AugmentedObjective
    from iada.method.perturbation import Drop, Replace, perturb
    from iada.method.selection import replacement_probability, standardize
    from iada.training.train import train
    from iada.training.trainer import IadaTrainer

__version__ = "0.2.0"

__all__ = [
    "AugmentConfig",
    "AugmentedObjective",
    "Document",
    "DocumentTranslator",
    "DocumentWindows",
    "Drop",
    "IadaTrainer",
    "ParallelDocument",
    "Replace",
    "Role",
    "RunConfig",
    "__version__",
    "evaluate",
    "importance",
    "inspect",
    "jensen_shannon",
    "perturb",
    "read_documents",
    "replacement_probability",
    "standardize",
    "symmetric_kl",
    "train",
]

_MODULES = {
    "AugmentConfig": "iada.config.method",
    "AugmentedObjective": "iada.method.objective",
    "Document": "iada.data.documents",
    "DocumentTranslator": "iada.decoding.translator",
    "DocumentWindows": "iada.data.windows.document_windows",
    "Drop": "iada.method.perturbation",
    "IadaTrainer": "iada.training.trainer",
    "ParallelDocument": "iada.data.documents",
    "Replace": "iada.method.perturbation",
    "Role": "iada.data.windows.batch",
    "RunConfig": "iada.config.run",
    "evaluate": "iada.evaluation.scores",
    "importance": "iada.method.importance",
    "inspect": "iada.analysis.importance_map",
    "jensen_shannon": "iada.method.losses",
    "perturb": "iada.method.perturbation",
    "read_documents": "iada.data.formats.readers",
    "replacement_probability": "iada.method.selection",
    "standardize": "iada.method.selection",
    "symmetric_kl": "iada.method.losses",
    "train": "iada.training.train",
}


def __getattr__(name: str) -> object:
    """Import the module of a public name when the name is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_MODULES[name]), name)
    # Found as an ordinary attribute from now on.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too, for completion."""
    return sorted({*globals(), *__all__})
