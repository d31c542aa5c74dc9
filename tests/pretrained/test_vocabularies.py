"""Tokenizers of pre-trained models: text, special tokens, languages, what replacement draws."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iada.data.tokens.pretrained_subwords import PretrainedSubwords

FAMILIES = ("marian", "mbart", "mbart50", "m2m100", "nllb", "t5", "bart")


@pytest.mark.parametrize("family", FAMILIES)
def test_loads(family: str, checkpoint: Callable[[str], Path]) -> None:
    folder = checkpoint(family)
    s = PretrainedSubwords.from_checkpoint(str(folder), source_language="en", target_language="de")
    print(family, s.settings, s.special, len(s))
    from iada.data.windows.families import pretrained_frame

    f = pretrained_frame(s)
    print(f)
    ids = s.encode(["The dog saw it.", "", "A </s> b ö ☃"], "source")
    print([s.pieces(i) for i in ids], [s.decode(i) for i in ids])
