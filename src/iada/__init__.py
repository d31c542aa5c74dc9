"""Document-level machine translation with Importance-Aware Data Augmentation (IADA).

The names below are the public interface. Each is imported when it is first used, so that
`import iada` costs nothing and `iada --help` answers at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iada.augment.importance import importance
    from iada.augment.perturbation import Drop, Replace, perturb
    from iada.augment.selection import replacement_probability, standardize
    from iada.config.augment import AugmentConfig
    from iada.data.documents import Document, ParallelDocument
    from iada.data.readers import read_documents
    from iada.data.roles import Role
    from iada.decoding.translator import DocumentTranslator
    from iada.evaluation.scores import evaluate
    from iada.objective.agreement import jensen_shannon, symmetric_kl
    from iada.objective.augmented import AugmentedObjective
    from iada.training.trainer import IadaTrainer

__version__ = "0.1.0"

__all__ = [
    "AugmentConfig",
    "AugmentedObjective",
    "Document",
    "DocumentTranslator",
    "Drop",
    "IadaTrainer",
    "ParallelDocument",
    "Replace",
    "Role",
    "__version__",
    "evaluate",
    "importance",
    "jensen_shannon",
    "perturb",
    "read_documents",
    "replacement_probability",
    "standardize",
    "symmetric_kl",
]

_MODULES = {
    "AugmentConfig": "iada.config.augment",
    "AugmentedObjective": "iada.objective.augmented",
    "Document": "iada.data.documents",
    "DocumentTranslator": "iada.decoding.translator",
    "Drop": "iada.augment.perturbation",
    "IadaTrainer": "iada.training.trainer",
    "ParallelDocument": "iada.data.documents",
    "Replace": "iada.augment.perturbation",
    "Role": "iada.data.roles",
    "evaluate": "iada.evaluation.scores",
    "importance": "iada.augment.importance",
    "jensen_shannon": "iada.objective.agreement",
    "perturb": "iada.augment.perturbation",
    "read_documents": "iada.data.readers",
    "replacement_probability": "iada.augment.selection",
    "standardize": "iada.augment.selection",
    "symmetric_kl": "iada.objective.agreement",
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
