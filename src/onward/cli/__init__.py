"""The command `onward`.

A command group is a module of its own; one line in `COMMANDS` makes it known. It is imported when it is
used, so that each command starts as fast as its own imports allow.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from onward.retry.errors import OnwardError
from onward.retry.redact import redact

COMMANDS = {
    "ingest": "onward.cli.ingest",
    "status": "onward.cli.status",
    "search": "onward.cli.search",
    "summaries": "onward.cli.summaries",
    "show": "onward.cli.show",
    "documents": "onward.cli.documents",
    "failed": "onward.cli.failed",
    "failures": "onward.cli.failures",
    "serve": "onward.cli.serve",
    "worker": "onward.cli.worker",
    "workers": "onward.cli.workers",
    "retry-job": "onward.cli.retry_job",
    "reembed": "onward.cli.reembed",
    "forget": "onward.cli.forget",
    "retry": "onward.cli.retry",
    "batches": "onward.cli.batches",
    "breakers": "onward.cli.breakers",
    "actions": "onward.cli.actions",
    "policies": "onward.cli.policies",
    "schema": "onward.cli.schema",
    "torture": "onward.cli.torture",
    "doctor": "onward.cli.doctor",
}
INTERRUPTED = 130
"""The exit code of a command that was stopped by Ctrl-C."""
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
PIPELINE_PACKAGES = frozenset(
    {
        "cchardet",
        "httpx2",
        "lxml_html_clean",
        "numpy",
        "pathspec",
        "pypdfium2",
        "safetensors",
        "selectolax",
        "tokenizers",
        "trafilatura",
        "wordllama",
    }
)
"""What `onward[pipeline]` installs, by the names it is imported by."""
CONSOLE_PACKAGES = frozenset(
    {"fastapi", "jinja2", "markdown_it", "markupsafe", "multipart", "python_multipart", "starlette", "uvicorn"}
)
"""What `onward[console]` installs."""


class _NotThere(click.ClickException):
    """Somebody named what there is not."""

    exit_code = 2


class _Commands(click.Group):
    """Find each command in its module, and turn errors into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def main(self, *args: Any, **options: Any) -> Any:  # click's own signature
        if sys.stdout is None:  # a shell has closed it
            _end_without_output("it is closed")
        try:
            return super().main(*args, **options)
        except OSError as error:
            if not _is_of_output(error):
                raise
            _end_without_output(error.strerror or str(error))

    def invoke(self, ctx: click.Context) -> Any:  # click's own signature
        try:
            return super().invoke(ctx)
        except OnwardError as error:
            if ctx.params["debug"]:
                raise
            kind = _NotThere if getattr(error, "exit_code", 1) == _NotThere.exit_code else click.ClickException
            raise kind(redact(str(error))) from error
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except ModuleNotFoundError as error:
            extra = _extra_of((error.name or "").partition(".")[0])
            if ctx.params["debug"] or not extra:
                raise
            raise click.ClickException(
                f"the package {error.name!r} is missing, which the {extra} needs.\n"
                f'Install it with: pip install "onward[{extra}]"'
            ) from error
        except Exception as error:
            if ctx.params["debug"] or _is_of_output(error):
                raise
            found = redact(f"{type(error).__name__}: {error}")
            raise click.ClickException(
                f"This should not have happened: {found}\nRun `onward --debug …` to see where it came from."
            ) from error


def _extra_of(package: str) -> str:
    """The extra of Onward that installs a package; empty: none does."""
    if package in CONSOLE_PACKAGES:
        return "console"
    return "pipeline" if package in PIPELINE_PACKAGES else ""


def _is_of_output(error: BaseException) -> bool:
    """Whether output could not be written: a file that has a name is named in its error."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _NOT_WRITTEN


def _end_without_output(why: str) -> NoReturn:
    click.echo(f"Error: the output cannot be written: {why}", err=True)
    if sys.stdout is not None:
        # Python tries once more when it ends, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="onward")
def main(debug: bool) -> None:
    """Bring every document forward: ingest, watch, retry, put back."""
    del debug  # read where errors are caught
