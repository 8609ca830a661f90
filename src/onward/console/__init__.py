"""The web console and the HTTP API, served by `onward serve`."""

from onward.console.app import build
from onward.console.server import CannotServe, serve

__all__ = ["CannotServe", "build", "serve"]
