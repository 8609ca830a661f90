"""Lists a path's allowed methods, for the 405 response."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fastapi import APIRouter, FastAPI, Request
from starlette.routing import Match, Route

_PLACE = re.compile(r"\{[^}]*\}")


def register_routes(web: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Store the routes of an app for `allowed_methods`: FastAPI does not promise how it stores them."""
    web.state.routes = [*getattr(web.state, "routes", ())] + [
        one for router in routers for one in router.routes if isinstance(one, Route)
    ]


def allowed_methods(request: Request) -> str:
    """Return the methods of a path, as the header Allow lists them.

    An id may contain slashes, so several routes may match; the one with the longest fixed part is meant.
    """
    fitting = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    meant = max((_words(one) for one in fitting), default="", key=len)
    return ", ".join(sorted({name for one in fitting if _words(one) == meant for name in one.methods or ()}))


def _words(route: Route) -> str:
    return _PLACE.sub("", route.path_format)
