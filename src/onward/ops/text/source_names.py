"""Names of sources, for people."""

from __future__ import annotations

from onward.ops.text.format import source_name


def display_name(source: str) -> str:
    """Return a source's name; of an upload, the name of its file."""
    from onward.pipeline.uploads import read_location

    upload = read_location(source)
    return f"{upload.name} (uploaded)" if upload is not None else source_name(source)


def short_name(source: str) -> str:
    """Return the last part of a source's name, where there is little space."""
    return display_name(source).rstrip("/").rpartition("/")[2] or display_name(source)
