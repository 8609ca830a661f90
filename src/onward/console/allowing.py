"""Which methods a path takes: for who asked in a way that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fastapi import APIRouter, FastAPI, Request
from starlette.routing import Match, Route

_PLACE = re.compile(r"\{[^}]*\}")


def remember(web: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Keep the routes of an app where `allowed` finds them: how an app itself keeps them is its own affair."""
    web.state.routes = [*getattr(web.state, "routes", ())] + [
        one for router in routers for one in router.routes if isinstance(one, Route)
    ]


def allowed(request: Request) -> str:
    """The methods of what is meant by a path, as the header Allow lists them.

    An id may hold slashes, so that several routes fit; the one with most words of its own is meant.
    """
    fitting = [one for one in request.app.state.routes if one.matches(request.scope)[0] is not Match.NONE]
    meant = max((_words(one) for one in fitting), default="", key=len)
    return ", ".join(sorted({name for one in fitting if _words(one) == meant for name in one.methods or ()}))


def _words(route: Route) -> str:
    return _PLACE.sub("", route.path_format)
