"""Whether a value that was stored as JSON is read back as it was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from itertools import starmap
from typing import Any

from pydantic import BaseModel


def is_same(given: Any, read: Any) -> bool:
    """Return whether a value was read back as it was given.

    A tuple and a list are the same, as are two values that are no number (NaN). Instances of a class that has no
    comparison of its own are only compared by their class.
    """
    try:
        if given == read:
            return True
        if _is_nan(given) and _is_nan(read):
            return type(given) is type(read)
    except (TypeError, ValueError, ArithmeticError):
        return type(given) is type(read)  # it cannot be compared, as arrays of numbers
    if type(given) in (list, tuple) and type(read) in (list, tuple):
        return len(given) == len(read) and all(map(is_same, given, read))
    if isinstance(given, datetime) and isinstance(read, datetime) and given.tzinfo and read.tzinfo:
        # In the hour in which the clocks go back, times of different zones never equal each other.
        return given.astimezone(UTC) == read.astimezone(UTC)
    if type(given) is not type(read):
        return False
    if isinstance(given, Mapping):
        return given.keys() == read.keys() and all(is_same(given[key], read[key]) for key in given)
    if isinstance(given, Set):
        numbers = ({one for one in each if not _is_nan(one)} for each in (given, read))
        return len(given) == len(read) and next(numbers) == next(numbers)
    if isinstance(given, BaseModel):
        return all(starmap(is_same, zip(_fields(given), _fields(read), strict=True)))
    if not any("__eq__" in vars(one) for one in type(given).__mro__[:-1]):
        return True
    if dataclasses.is_dataclass(given):
        names = [field.name for field in dataclasses.fields(given) if field.compare]
        return all(is_same(getattr(given, name), getattr(read, name)) for name in names)
    return False


def _is_nan(value: Any) -> bool:
    return bool(value != value)  # noqa: PLR0124 - only what is no number differs from itself


def _fields(model: BaseModel) -> list[Any]:
    """Return what is stored of a model, without its private attributes and what it caches."""
    return [*(getattr(model, name) for name in type(model).model_fields), model.model_extra]
