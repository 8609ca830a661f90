"""A crew: one supervisor with its worker processes, run by `python -m onward.torture.crew`.

Its settings come from the environment. It ends with whoever started it: that one holds the other end of
its standard input.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):  # not through a buffer: its lock would be in the way of ending
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Supervise until told to stop; the arguments are the number of processes and the lease."""
    from onward.torture.workload import REFERENCE
    from onward.worker import supervise

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    supervise(REFERENCE, processes=int(sys.argv[1]), lease=float(sys.argv[2]), log_level=logging.INFO)


if __name__ == "__main__":
    main()
