"""Kinds of sources: each lists what there is at a location, and fetches one entry of it."""

from onward.pipeline.source_kinds.source_kind import Entry, SourceKind, SourceOption, SourceRun, fetch_nothing

__all__ = ["Entry", "SourceKind", "SourceOption", "SourceRun", "fetch_nothing"]
