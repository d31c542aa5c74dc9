"""What a token is within its window.

Roles travel beside the ids as an int8 tensor of the same shape. Everything that must never be
perturbed and never enters the importance statistics is SPECIAL: padding, `<s>`, `</s>`, `<sep>`,
`<mask>` and tags.
"""

from enum import IntEnum


class Role(IntEnum):
    """Part of the window that a token belongs to."""

    SPECIAL = 0
    CONTEXT = 1
    CURRENT = 2
