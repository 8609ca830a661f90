"""Says which servers cannot be started on this machine; ends with 1 if there are any."""

from __future__ import annotations

import sys

from rich.console import Console

from onward.torture.servers import missing

if __name__ == "__main__":
    reasons = missing()
    for reason in reasons:
        Console(soft_wrap=True).print(reason, style="bold red", markup=False, highlight=False)
    sys.exit(1 if reasons else 0)
