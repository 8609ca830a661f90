"""`onward new-service`: writes a small service with its tests and its dashboard."""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from onward.cli.params import dry_run_option, json_option, print_json
from onward.ops.bad_input import BadInput

# The files of a service called `new_service`; in the package their names end in `.txt`.
FILES = ("new_service.py", "test_new_service.py", "new_service.dashboard.json")
MAX_NAME = 32  # characters; the uid of the dashboard is `onward-` and the name, and Grafana allows 40
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


@click.command(name="new-service")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Write into this folder, which is made if it does not exist; by default the current one.",
)
@dry_run_option
@json_option
def new_service(name: str, into: Path, dry_run: bool, as_json: bool) -> None:
    """Write a new service: documents, event and handler, tests, and a Grafana dashboard.

    The three files work as they are; replace one function with what your service does. An existing file is
    never overwritten.

    \b
    Examples:
      onward new-service invoice-reading
      onward new-service invoice-reading --into services --dry-run
    """
    module = _module_name(name)
    texts = {into / file: text for file, text in render(module).items()}
    if taken := [str(file) for file in texts if file.exists() or file.is_symlink()]:
        raise BadInput(
            f"already there: {', '.join(taken)}. Nothing was written; "
            "give another name, or another folder with --into"
        )
    _refuse_hidden_module(name, module)
    if not dry_run:
        _write(texts)
    steps = {"": f"cd {shlex.quote(str(into))}"} if into != Path() else {}
    steps["run its tests"] = f"pytest test_{module}.py"
    steps["publish one input"] = f"python {module}.py hello"
    steps["process it"] = f"onward worker --app {module}:app --until-idle 1"
    steps["see its input and its result"] = "onward documents"
    if as_json:
        paths, commands = [str(file) for file in texts], list(steps.values())
        print_json({"service": module, "files": paths, "dry_run": dry_run, "next": commands})
        return
    click.echo("\n  ".join(["Would write:" if dry_run else "Wrote:", *map(str, texts)]))
    if not dry_run:
        width = len(steps["process it"])
        click.echo("Next:")
        for why, step in steps.items():
            click.echo(f"  {step:{width}}  # {why}" if why else f"  {step}")
        click.echo(f"Then replace make_text in {module}.py, and import {module}.dashboard.json in Grafana.")


def render(module: str) -> dict[str, str]:
    """Return the text of each file of a service, by the file's name."""
    camel = "".join(word.capitalize() for word in module.split("_"))
    folder = files("onward.cli") / "service_template"
    texts = {file: (folder / f"{file}.txt").read_text(encoding="utf-8") for file in FILES}
    return {
        file.replace("new_service", module): text.replace("new_service", module).replace("NewService", camel)
        for file, text in texts.items()
    }


def _module_name(name: str) -> str:
    """Return the name of the module and of the service; refuse a name that cannot be one."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name) if name.isascii() else []
        close = "-".join(words).lower()[:MAX_NAME].rstrip("-")
        raise BadInput(
            f"{name!r:.100} is no name for a service: give up to {MAX_NAME} lower-case letters, digits, - and _, "
            f"beginning with a letter, such as {close if _NAME.fullmatch(close) else 'invoice-reading'}"
        )
    return name.replace("-", "_")


def _refuse_hidden_module(name: str, module: str) -> None:
    from onward.ops.lookup import PIPELINE_SERVICES

    known = keyword.iskeyword(module) or module in sys.stdlib_module_names
    if known or ((spec := find_spec(module)) is not None and spec.origin is not None):
        raise BadInput(
            f"{name!r} cannot be the name of a service: Python has a keyword or a module of this name; "
            f"give another one, such as {name}-service"
        )
    if module in PIPELINE_SERVICES:
        raise BadInput(
            f"{name!r} cannot be the name of a service: Onward's own pipeline has a service of this name; "
            f"give another one, such as {name}-service"
        )


def _write(texts: dict[Path, str]) -> None:
    """Write all files or none."""
    written: list[Path] = []
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                written.append(file)
                new.write(text)
    except OSError as error:
        for file in written:
            file.unlink()
        raise BadInput(
            f"{error.filename or file} cannot be written: {error.strerror}. Nothing was written; "
            "give another folder with --into"
        ) from error
