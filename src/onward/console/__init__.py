"""The web console and the HTTP API, served by `onward serve`."""

from onward.console.server import CannotServe, build, serve

__all__ = ["CannotServe", "build", "serve"]
