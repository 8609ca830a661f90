"""A command that ends with whoever has started it: `python -m onward.cli.along worker …`."""

from __future__ import annotations

import os
import signal
import threading

from onward.cli import main


def _end_with_starter() -> None:
    """Nobody writes to this command: what it would read ends when its starter does, even if that is killed."""
    # Not through `sys.stdin`: Python could not end while another thread holds that.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_starter, name="onward-along", daemon=True).start()
    main(prog_name="onward")
