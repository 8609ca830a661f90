"""Errors about what a person or a program has given; each message names the value and the remedy."""

from __future__ import annotations

from onward.retry.errors import OnwardError


class NotFound(OnwardError):
    """The store has nothing with this name, or several things."""

    exit_code = 2


class BadInput(OnwardError):
    """A value cannot be used: it is misspelt, too short, or does not fit the other values."""

    exit_code = 2


class NotPossible(OnwardError):
    """A valid request that is not possible in this store or in its present state."""
