"""Where sentences end: prose into sentences, sentences that are too long into parts, and back.

A text to translate may have a paragraph on each line, or a sentence that no window can hold. Both
are cut before translation, and the translations of the parts are joined afterwards, so that lines,
cells and segments stay what they are.
"""

import re
from collections.abc import Callable, Sequence

from iada.data.documents import Document
from iada.data.formats.file_format import Piece
from iada.errors import ConfigError

Split = Callable[[str], Sequence[str]]
"""From a sentence, or a line of prose, to its parts."""
_UNSPACED = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "yue", "zh"})
"""Languages without spaces between sentences."""
_CLOSING = r"['\"\u2019\u201d\u00bb)\]]*"
_CLAUSE_END = re.compile(
    rf"[;:,.!?\u2026\u2013\u2014]{_CLOSING}\s+|[\u3001\uff0c\uff1b\uff1a\u3002\uff01\uff1f]"
)
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(
    rf"[.!?\u2026]{_CLOSING}\s+['\"\u2018\u201c\u201e\u00ab(\[\u00bf\u00a1]*"
    r"[0-9A-Z\u00c0-\u00de\u0391-\u03a9\u0410-\u042f]|[\u3002\uff01\uff1f]"
)
"""A full stop and the like before a capital letter or a digit; in Chinese and Japanese any."""


def sentence_splitter(language: str) -> Split:
    """Return a function that splits prose of a language into sentences, by sentencex.

    Raises:
        ConfigError: sentencex is not installed.
    """
    try:
        import sentencex
    except ImportError:
        raise ConfigError(
            "`data.split: sentences` needs sentencex, which is not installed: "
            "`pip install 'iada[language]'`."
        ) from None
    code = re.split("[-_]", language)[0].lower()

    def split(text: str) -> list[str]:
        if not text.strip():
            return [text]
        return [part for one in sentencex.segment(code, text) if (part := one.strip())]

    return split


def long_sentence_splitter(fits: Callable[[str], bool]) -> Split:
    """Return a function that cuts a sentence until all parts fit.

    A cut is near the middle: after a comma or the like, else at a space, else anywhere.
    """

    def split(text: str) -> list[str]:
        if len(text) < 2 or fits(text):
            return [text]
        cut = _middle(text)
        parts = [part for one in (text[:cut], text[cut:]) if (part := one.strip())]
        return [shorter for part in parts for shorter in split(part)]

    return split


def looks_like_prose(sentence: str) -> bool:
    """Tell whether a "sentence" holds three sentences or more."""
    return len(_SENTENCE_END.findall(sentence)) >= 2


def joiner(language: str) -> str:
    """Return what stands between two sentences of a paragraph."""
    return "" if re.split("[-_]", language)[0].lower() in _UNSPACED else " "


def split_document(document: Document, split: Split) -> tuple[Document, list[int]]:
    """Return a document of parts, and the number of parts of each sentence."""
    parts = [split(sentence) for sentence in document.sentences]
    flat = tuple(part for one in parts for part in one)
    return Document(document.name, flat), [len(one) for one in parts]


def join_parts(sentences: Sequence[str], counts: Sequence[int], between: str) -> list[str]:
    """Put the translations of parts together: the inverse of `split_document`."""
    remaining = iter(sentences)
    return [between.join(filter(None, (next(remaining) for _ in range(n)))) for n in counts]


def split_piece(piece: Piece, split: Split, between: str) -> Piece:
    """Return a piece of a file whose document is split, and joined again when it is rendered.

    References do not correspond to the parts, so they are left out. A sentence whose translation
    stands stays whole.
    """
    if piece.document is None:
        return piece
    name, sentences = piece.document.name, piece.document.sentences
    kept = piece.kept or (None,) * len(sentences)
    pairs = [*zip(sentences, kept, strict=True)]
    parts = [split(one) if known is None else [one] for one, known in pairs]
    counts = [len(one) for one in parts]
    if sum(counts) == len(sentences):
        return piece
    document = Document(name, tuple(part for one in parts for part in one))
    return Piece(
        lambda found: piece.render(join_parts(found, counts, between)),
        document,
        kept=tuple(known for known, count in zip(kept, counts, strict=True) for _ in range(count)),
    )


def _middle(text: str) -> int:
    """Return the best place to cut a sentence."""
    half, quarter = len(text) // 2, len(text) // 4
    for pattern in (_CLAUSE_END, _SPACE):
        ends = [found.end() for found in pattern.finditer(text)]
        near = [end for end in ends if quarter <= end <= len(text) - quarter and text[end:].strip()]
        if near:
            return min(near, key=lambda end: abs(end - half))
    return half
