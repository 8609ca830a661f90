"""The app that Onward's worker processes load; the environment says what it works on."""

from __future__ import annotations

import os
from pathlib import Path

from bench.cells_peers import EFFECTS, URL, Onward
from bench.cells_records import open_effects

app = Onward(os.environ[URL]).app(open_effects(Path(os.environ[EFFECTS])))
