"""A window as a table that people can read."""

from collections.abc import Sequence

from iada.data.roles import Role
from iada.data.subwords import Subwords
from iada.data.windows import Window


def describe_window(window: Window, subwords: Subwords) -> str:
    """Return the tokens of both sides with their roles, and which labels are in the loss."""
    source = [
        (str(position), piece, Role(role).name.lower())
        for position, (piece, role) in enumerate(
            zip(subwords.pieces(window.source_ids.tolist()), window.source_roles, strict=True)
        )
    ]
    decoder_input = subwords.pieces(window.target_ids.tolist())
    # Each position predicts the token after it; the last one the end, which is no input.
    labels = [*decoder_input[1:], subwords.pieces([subwords.special.eos])[0]]
    target = [
        (str(position), piece, Role(role).name.lower(), label, "yes" if counted else "no")
        for position, (piece, role, label, counted) in enumerate(
            zip(decoder_input, window.target_roles, labels, window.labels >= 0, strict=True)
        )
    ]
    return "\n".join(
        [
            f"window of sentence {window.sentence}",
            _table(("", "source", "role"), source),
            "",
            _table(("", "decoder input", "role", "label", "in the loss"), target),
        ]
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
