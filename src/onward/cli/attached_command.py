"""A command that ends with the process that started it: `python -m onward.cli.attached_command worker …`."""

from __future__ import annotations

import os
import signal
import threading

from onward.cli import main


def _end_with_parent() -> None:
    """End when standard input is closed, which happens when the parent ends, even if it is killed."""
    # Not through `sys.stdin`: Python cannot end while another thread holds its lock.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, name="onward-attached", daemon=True).start()
    main(prog_name="onward")
