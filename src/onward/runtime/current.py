"""The call that is running here, for whoever logs or traces in it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.runtime.handling import Call

CURRENT: ContextVar[Call | None] = ContextVar("onward_call", default=None)
"""Set while a handler runs, in its thread or its task; also in what that starts."""
