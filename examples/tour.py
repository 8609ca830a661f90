"""From a mail archive to search and summaries: `make demo`.

It runs the commands that you would type, on the sample archive, and says what it types.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from onward import App
from onward.pipeline.documents import Message
from onward.pipeline.search import Query, search
from onward.settings import load_settings

ROOT = Path(__file__).parents[1]
SAMPLE = Path("examples", "sample", "harbour-list.mbox")
HOME = Path("onward-demo")
QUESTION = "wrong charger setting for the lithium battery"
DONE, SOME_FAILED = 0, 3
"""Exit codes of `onward`: see `onward ingest --help`."""


class Stopped(Exception):
    """Somebody has seen enough."""


class Tour:
    """The commands, one after the other, with a word about each."""

    def __init__(self, console: Console, home: Path) -> None:
        self._console = console
        self._home = home
        # The tour is the same for everybody: offline, with the models that are built in.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "RETRY_"))}
        self._environment = own | {"ONWARD_HOME": str(home.absolute())}

    def run(self) -> None:
        self._say("An archive of 151 letters, some of them broken, is parsed, chunked, embedded and summarised:")
        code = self._type("ingest", str(SAMPLE), "--processes", "2")
        if code not in (DONE, SOME_FAILED):
            raise RuntimeError(f"`onward ingest` ended with {code}; it says above why")
        self._say(
            "One letter failed, on purpose: 400 bytes of a broken disk. It cost the others nothing, and is kept "
            "with its bytes and its error. So the exit code was 3: done, but not all of it."
        )
        self._say("Search goes by words and by meaning:")
        self._type("search", "--limit", "3", *QUESTION.split())
        answer, failed = self._look()
        self._say("The first one has the answer:")
        self._type("show", answer.id[:8])
        self._say("What the whole thread is about, with citations:")
        self._type("summaries", "--thread", answer.thread_id[:8])
        self._next(failed[:8])

    def _look(self) -> tuple[Message, str]:
        """The message that the search found first, and the id of the one that failed; read as any program may."""
        with closing(App(settings=load_settings({"ONWARD_HOME": str(self._home)}))) as app:
            (found,) = search(app, Query(QUESTION), limit=1).hits
            answer = found.message
            (failed,) = app.store.states(Message, status="failed")
            return answer, failed.id

    def _say(self, text: str) -> None:
        self._console.print()
        self._console.print(Text(text, "cyan"))

    def _type(self, *args: str) -> int:
        """Run a command as at this terminal."""
        self._console.print(Text.assemble(("$ ", "dim"), (f"onward {shlex.join(args)}", "bold")), soft_wrap=True)
        self._console.print()
        sys.stdout.flush()
        command = [sys.executable, "-m", "onward", *args]
        # Only `ingest` has something to end when Ctrl-C is pressed; the others are over in a moment.
        apart = args[0] != "ingest"
        with _ctrl_c_for_the_command():
            ran = subprocess.run(command, cwd=ROOT, env=self._environment, check=False, start_new_session=apart)
        return ran.returncode

    def _next(self, failed: str) -> None:
        onward = Path(sys.executable).with_name("onward")
        shown = onward.relative_to(Path.cwd()) if onward.is_relative_to(Path.cwd()) else onward
        self._say(f"Your turn. Everything is in {self._home}; look around with:")
        for line in (
            f"export ONWARD_HOME={shlex.quote(str(self._home))}",
            f"{shown} search who has the key to the boathouse",
            f"{shown} summaries",
            f"{shown} show {failed}      # the message that failed",
            f"{shown} status",
            f"{shown} serve             # all of it in a browser",
        ):
            self._console.print(Text(f"  {line}"), soft_wrap=True)
        self._say("Or ingest your own, into ./onward-data:")
        self._console.print(Text("  unset ONWARD_HOME"))
        self._console.print(Text(f"  {shown} ingest MAILBOX FOLDER URL …"), soft_wrap=True)


@contextmanager
def _ctrl_c_for_the_command() -> Iterator[None]:
    """Leave Ctrl-C to the command, which ends what it runs and says so; then stop, too."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise Stopped


def empty(home: Path) -> None:
    """Make an empty data folder, in place of one that an earlier tour has left."""
    if home.exists() and not (home / ".gitignore").exists() and any(home.iterdir()):
        raise FileExistsError(f"{home} is no folder of this demo: move it, or name another one")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / ".gitignore").write_text("*\n")


def main(home: Path) -> int:
    console = Console(highlight=False, emoji=False)
    try:
        empty(home)
        Tour(console, home).run()
    except (Stopped, KeyboardInterrupt):
        console.print("\nStopped early; `make demo` begins anew.")
    except (FileExistsError, RuntimeError) as error:
        console.print(Text(f"Error: {error}"), soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else HOME))
