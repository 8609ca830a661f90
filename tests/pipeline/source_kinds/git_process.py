"""Lists a repository in a process of its own, which tests kill: REPOSITORY HOME; prints a line for each file."""

from __future__ import annotations

import sys
from pathlib import Path

from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds import SourceRun
from onward.pipeline.source_kinds.git_repository import GitRepositories

if __name__ == "__main__":
    location, home = sys.argv[1:]
    run = SourceRun(
        GitRepositories().canonical(location), guard=AddressGuard(allow_private=True), cache=Path(home) / "cache"
    )
    for entry in GitRepositories().entries(run):
        print(entry.path, entry.version, flush=True)
