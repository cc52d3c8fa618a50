"""Zip files, of which .docx are some, with parts that are damaged or were put there."""

import io
import zipfile

from hypothesis import strategies as st

from .hostile import Draw, damaged


def parts_of(packed: bytes) -> dict[str, bytes]:
    """Return what is in a zip file, by name."""
    with zipfile.ZipFile(io.BytesIO(packed)) as whole:
        return {name: whole.read(name) for name in whole.namelist()}


def pack(parts: dict[str, bytes]) -> bytes:
    """Make a zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, part in parts.items():
            whole.writestr(name, part)
    return made.getvalue()


@st.composite
def repacked(draw: Draw, packed: bytes) -> bytes:
    """A zip file with one part damaged or missing."""
    parts = parts_of(packed)
    name = draw(st.sampled_from(sorted(parts)))
    part = parts.pop(name)
    return pack({**parts, name: draw(damaged(part))} if draw(st.integers(0, 5)) else parts)
