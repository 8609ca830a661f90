"""What people call a source."""

from __future__ import annotations

from onward.facts.wording import source_name


def called(source: str) -> str:
    """A source's name; of an upload, what its file was called."""
    from onward.pipeline.uploads import read_location

    upload = read_location(source)
    return f"{upload.name} (uploaded)" if upload is not None else source_name(source)


def short(source: str) -> str:
    """The last part of a source's name, where there is little space."""
    return called(source).rstrip("/").rpartition("/")[2] or called(source)
