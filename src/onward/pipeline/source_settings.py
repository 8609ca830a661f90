"""The settings of a source: the options of its kind, how often it is ingested, and what is removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from onward import App, OnwardError
from onward.pipeline.documents import Source, source_id

if TYPE_CHECKING:
    from onward.pipeline.source_kinds import SourceKind


class WrongOption(OnwardError):
    """An option of a source that its kind does not have, or a value that it does not take."""


def read_options(pairs: Iterable[str]) -> dict[str, str]:
    """Read options as they are typed: `depth=3`."""
    options: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise WrongOption(f"the option {pair!r} is no NAME=VALUE, such as depth=3")
        options[name.strip()] = value.strip()
    return options


def split_options(text: str) -> list[str]:
    """Split options that are typed in one line: `depth=3, exclude=trash,junk`; a value may have commas."""
    return [pair for pair in re.split(r",\s*(?=\w+\s*=)", text) if pair.strip()]


def changed_options(source: str, stored: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a source (a canonical location) after a change, without those at their default."""
    if not given:
        return dict(stored)
    from onward.pipeline.source_kinds.registry import find_kind

    kind = find_kind(source)
    defaults = {} if kind is None else {option.name: option.default for option in kind.options}
    return {name: value for name, value in {**stored, **given}.items() if value != defaults.get(name)}


def check_options(source: str, options: Mapping[str, str]) -> None:
    """Refuse options that the kind of a source (a canonical location) does not have, and wrong values."""
    if not options:
        return
    from onward.pipeline.source_kinds.registry import find_kind

    kind = find_kind(source)
    known = {} if kind is None else {option.name: option for option in kind.options}
    for name, value in options.items():
        if name not in known:
            what = "An upload" if kind is None else kind.name
            allowed = ", ".join(f"{one.name} ({one.default or 'empty'})" for one in known.values())
            known_ones = f"with their defaults, they are: {allowed}" if known else "it has none"
            raise WrongOption(f"{what} has no option {name!r}; {known_ones}")
        try:
            known[name].parse(value)
        except ValueError as error:
            raise WrongOption(f"the option {name}={value!r} is refused: {error}") from error


def run_options(kind: SourceKind, settings: Source) -> dict[str, str]:
    """Return all options of a kind, with the value of a source or the default."""
    from onward.pipeline.source_kinds.source_kind import option_values

    return option_values(kind.options, settings.options)


def source_settings(app: App, source: str) -> Source:
    """Return the settings of a source (a canonical location); those of a source without any are the defaults."""
    return app.get(Source, source_id(source)) or Source(id=source_id(source), location=source)


def store_settings(app: App, settings: Source) -> None:
    app.replace(settings, source=settings.location)
