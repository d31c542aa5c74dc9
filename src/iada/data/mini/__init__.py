"""An embedded English-German mini corpus whose correct translation needs context.

Its documents have pronouns that need their antecedent, homonyms that need the topic, and forms of
address that need the greeting. A grammar in code generates them from a seed, with gold parts of
speech and a contrastive pronoun set. Nothing is read from disk or the network.
"""

from iada.data.mini.composition import generate_documents
from iada.data.mini.lexicon import TaggedDocument, TaggedSentence
from iada.data.mini.writing import MiniConfig, generate_contrastive, write_mini_corpus

__all__ = [
    "MiniConfig",
    "TaggedDocument",
    "TaggedSentence",
    "generate_contrastive",
    "generate_documents",
    "write_mini_corpus",
]
