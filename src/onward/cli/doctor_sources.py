"""The check of `onward doctor` on the kinds of sources of installed packages."""

from __future__ import annotations

from collections.abc import Iterator

from onward.cli.doctor import Check, ok, wrong


def check_source_kinds() -> Iterator[Check]:
    """Yield a result for each kind of source of an installed package; nothing if there is none."""
    from onward.pipeline.source_kinds.registry import UnusablePlugin, load_plugin, plugins

    for scheme, point in sorted(plugins().items()):
        try:
            kind = load_plugin(point)
        except UnusablePlugin as error:
            text, _, remedy = str(error).rpartition("; ")
            yield wrong("kind of source", text, remedy)
        else:
            yield ok("kind of source", f"{kind.name}, {scheme}://, of {point.value}")
