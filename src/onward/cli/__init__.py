"""The command `onward`: finds each command, and turns errors into a message and an exit code.

`COMMANDS` names the module of each command. It is imported when the command is used, so that `onward --version`
and each command start as fast as their own imports allow.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
from difflib import get_close_matches
from typing import Any, NoReturn

import click

__all__ = ["COMMANDS", "INTERRUPTED", "main"]


COMMANDS = {  # the module of each command, and its summary
    "ingest": ("ingest", "Ingest mailboxes, folders and URLs."),
    "watch": ("sources", "Ingest sources now and at intervals."),
    "sources": ("sources", "List sources and their runs; pause, resume, remove."),
    "status": ("status", "Show what needs a person, then everything else."),
    "search": ("search", "Search the ingested documents."),
    "similar": ("search", "List messages that are about the same as a message."),
    "searches": ("searches", "List and remove saved searches."),
    "ask": ("ask", "Answer a question with passages of messages."),
    "summaries": ("search", "List the summarised threads."),
    "show": ("show", "Show one document and its history."),
    "documents": ("documents", "List, export, discard or remove documents."),
    "mcp": ("mcp", "Serve search and messages to assistants (MCP)."),
    "failed": ("failed", "List, requeue and remove dead letters."),
    "failures": ("failure_decisions", "Show failures by cause, retry them, and say what is fixed."),
    "serve": ("processes", "Serve the web console and the HTTP API."),
    "worker": ("processes", "Run an app's services in worker processes."),
    "workers": ("services", "Show which workers are alive, and what they do."),
    "services": ("services", "Show services and what waits for them; retire one."),
    "schedules": ("services", "Show schedules, their last and their next run."),
    "joins": ("joins", "Show events that wait until documents are final."),
    "retry-job": ("processes", "Requeue unfinished documents that are due."),
    "models": ("models", "Show models, their speed here, and whose vectors there are."),
    "reembed": ("models", "Embed chunks that have no vector of the present model."),
    "forget": ("ingest", "Remove a source and everything made from it."),
    "publish": ("publish", "Put events of files on the ledger."),
    "retry": ("documents", "Requeue documents now, or at a given time."),
    "cancel": ("documents", "Cancel documents that are not finished."),
    "batches": ("batches", "List and retry failed batches."),
    "breakers": ("services", "Show outages, and open or close a breaker."),
    "actions": ("status", "List what operators did."),
    "operations": ("operations", "List and continue actions that were begun."),
    "policies": ("reference", "Show what is retried when, and until when."),
    "simulate": ("simulate", "Show what an outage would do with other settings."),
    "capacity": ("capacity", "Show what a load needs: workers, calls, a database."),
    "schema": ("reference", "Print JSON Schemas of events and documents."),
    "new-service": ("new_service", "Write a new service with its tests and dashboard."),
    "torture": ("torture", "Kill and pause workers, and count what is lost."),
    "upgrade": ("upgrade", "Create or upgrade the tables of the store."),
    "doctor": ("doctor", "Check the installation, and say what to repair."),
}
_ONLY_OWN_MODELS = frozenset(("ingest", "status", "search", "similar", "searches", "summaries"))
INTERRUPTED = 130  # the exit code of a command that was stopped by Ctrl-C
WRONG_USAGE = 2
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_EXTRAS = {  # the packages that each extra installs, by the names they are imported by
    "cli": ("rich",),
    "console": (
        *("fastapi", "jinja2", "markdown_it", "markupsafe", "multipart", "python_multipart", "starlette"),
        *("prometheus_client", "uvicorn"),
    ),
    "mcp": ("mcp", "mcp_types"),
    "pipeline": (
        *("cchardet", "httpx2", "lxml", "lxml_html_clean", "numpy", "pathspec", "pypdfium2", "safetensors"),
        *("selectolax", "tokenizers", "trafilatura", "watchfiles", "wordllama"),
    ),
}


class _UsageProblem(click.ClickException):
    exit_code = WRONG_USAGE


class _Commands(click.Group):
    """Imports a command when it is used, and turns errors into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in _ONLY_OWN_MODELS:
            # Pydantic would look through all installed packages for plugins, which matter to an app's own models.
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        module = importlib.import_module(f"onward.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Not from the commands themselves: to import them all takes long, and some need an extra.
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # click itself looks only among commands that are imported.
            close = get_close_matches(args[0], COMMANDS)
            if not close:
                raise
            meant = " or ".join(map(repr, close))
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant}?", ctx) from error

    def main(self, *args: Any, **options: Any) -> Any:  # click's own signature
        if not args and "args" not in options:  # in a process of its own, not called by another program
            # Imports make objects that stay: to look for garbage among them is a tenth of a short command's time.
            gc.set_threshold(100_000, 20, 10)
        if sys.stdout is None:  # a shell has closed it
            _end_without_output("it is closed")
        try:
            return super().main(*args, **options)
        except OSError as error:
            if not _is_output_error(error):
                raise
            _end_without_output(error.strerror or str(error))

    def invoke(self, ctx: click.Context) -> Any:  # click's own signature
        # Most people set no other variable, and the module of settings takes a while to import.
        if any(name.startswith("ONWARD_") and name != "ONWARD_HOME" for name in os.environ):
            _warn_of_unknown_variables()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except Exception as error:
            if ctx.params["debug"] or _is_output_error(error):
                raise
            raise _problem(error) from error


def _warn_of_unknown_variables() -> None:
    from onward.settings import unknown_variables

    for name, close in unknown_variables(os.environ):
        meant = f" Did you mean {close}?" if close else ""
        click.echo(f"Warning: {name} is set, but no setting has this name.{meant}", err=True)


def _problem(error: Exception) -> click.ClickException:
    """Return the message for an error; its exit code is 1, or 2 where the call was wrong."""
    from onward.retry.errors import OnwardError
    from onward.retry.redact import redact

    if isinstance(error, OnwardError):
        kind = _UsageProblem if getattr(error, "exit_code", 1) == WRONG_USAGE else click.ClickException
        return kind(redact(str(error)))
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        for extra, packages in _EXTRAS.items():
            if package in packages:
                return _UsageProblem(
                    f"this command needs the package {package!r}, which is not installed.\n"
                    f"Run: pip install 'onward[{extra}]'"
                )
    found = redact(f"{type(error).__name__}: {error}")
    return click.ClickException(
        f"This should not have happened: {found}\nRun `onward --debug …` to see where it came from."
    )


def _is_output_error(error: BaseException) -> bool:
    """Return whether output could not be written; the error of a file has its name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_ERRORS


def _end_without_output(why: str) -> NoReturn:
    click.echo(f"Error: the output cannot be written: {why}", err=True)
    if sys.stdout is not None:
        # Python flushes once more when it ends, and would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="onward")
def main(debug: bool) -> None:
    """Ingest documents, see what failed and why, retry it."""
    del debug  # read where errors are caught
