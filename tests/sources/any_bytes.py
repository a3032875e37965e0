"""What parsers of any bytes are held to: facts of the promised types, from messages with damage."""

import dataclasses
import types
import typing

from hypothesis import strategies as st


def well_typed(value, hint):
    """Whether a fact holds, field by field, what its annotation promises."""
    if dataclasses.is_dataclass(value):
        hints = typing.get_type_hints(type(value))
        fields = dataclasses.fields(value)
        return all(well_typed(getattr(value, each.name), hints[each.name]) for each in fields)
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return isinstance(value, tuple(typing.get_origin(kind) or kind for kind in kinds))


@st.composite
def damaged(draw, raw):
    """A real message with some bytes replaced, and perhaps cut."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 6))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])
