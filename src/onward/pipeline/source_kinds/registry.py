"""The kinds of sources that there are: those of Onward, and those of installed packages, by scheme."""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from onward.pipeline.fetch.fetch_errors import UnusableSource

if TYPE_CHECKING:
    from onward.pipeline.source_kinds.source_kind import SourceKind

GROUP = "onward.sources"
"""The group of entry points: the name of one is a scheme, its object a kind, or a function that returns one."""

# By scheme: the module below `onward.pipeline.source_kinds`, and the class in it. A module is imported when a
# location has its scheme. A path has none.
BUILT_IN: dict[str, str] = {
    "": "files:Files",
    "az": "object_store:ObjectStores",
    "crawl+http": "crawl:WebSite",
    "crawl+https": "crawl:WebSite",
    "feed+http": "feed:Feed",
    "feed+https": "feed:Feed",
    "git+file": "git_repository:GitRepositories",
    "git+http": "git_repository:GitRepositories",
    "git+https": "git_repository:GitRepositories",
    "git+ssh": "git_repository:GitRepositories",
    "gs": "object_store:ObjectStores",
    "http": "web_page:WebPage",
    "https": "web_page:WebPage",
    "hyperkitty+http": "hyperkitty:HyperKittyArchives",
    "hyperkitty+https": "hyperkitty:HyperKittyArchives",
    "imap": "imap:ImapMailbox",
    "imaps": "imap:ImapMailbox",
    "pipermail+http": "pipermail:PipermailArchives",
    "pipermail+https": "pipermail:PipermailArchives",
    "publicinbox+file": "public_inbox:PublicInboxes",
    "publicinbox+http": "public_inbox:PublicInboxes",
    "publicinbox+https": "public_inbox:PublicInboxes",
    "publicinbox+ssh": "public_inbox:PublicInboxes",
    "s3": "object_store:ObjectStores",
    "sitemap+http": "sitemap:SitemapSource",
    "sitemap+https": "sitemap:SitemapSource",
}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_METHODS = ("canonical", "entries")
_ATTRIBUTES = ("name", "schemes", "options")


class UnusablePlugin(UnusableSource):
    """A kind of source of an installed package that cannot be imported, or does not follow the protocol."""


def scheme_of(location: str) -> str:
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""


def find_kind(location: str) -> SourceKind | None:
    """Return the kind of a location, or None if no kind has its scheme. A broken one raises."""
    return kind_of_scheme(scheme_of(location))


@cache
def kind_of_scheme(scheme: str) -> SourceKind | None:
    if scheme in BUILT_IN:
        module, _, name = BUILT_IN[scheme].partition(":")
        kind: SourceKind = getattr(importlib.import_module(f"onward.pipeline.source_kinds.{module}"), name)()
        return kind
    plugin = plugins().get(scheme)
    return None if plugin is None else load_plugin(plugin)


def schemes() -> list[str]:
    """Return all known schemes, without importing a kind."""
    return sorted({*BUILT_IN, *plugins()} - {""})


@cache
def plugins() -> dict[str, EntryPoint]:
    """Return the kinds of installed packages, by scheme. This reads the metadata of all packages."""
    return {point.name.lower(): point for point in entry_points(group=GROUP)}


def load_plugin(point: EntryPoint) -> SourceKind:
    """Import a kind of source of an installed package, and check it."""
    package = point.dist.name if point.dist is not None else point.module
    named = f"the kind of source {point.name!r} of the package {package!r} ({point.value})"
    try:
        loaded = point.load()
        if isinstance(loaded, type) or not hasattr(loaded, "entries"):
            loaded = loaded()
    except Exception as error:
        raise UnusablePlugin(
            f"{named} cannot be imported: {type(error).__name__}: {error}; update or remove the package"
        ) from error
    missing = [name for name in _ATTRIBUTES if not hasattr(loaded, name)]
    missing += [name for name in _METHODS if not callable(getattr(loaded, name, None))]
    if missing:
        raise UnusablePlugin(
            f"{named} has no {', no '.join(missing)}; see SourceKind in onward.pipeline.source_kinds"
        )
    kind: SourceKind = loaded
    return kind
