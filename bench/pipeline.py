"""The whole pipeline beside a straight-line script; its memory as the archive grows.

A real archive says more than the shipped sample: `python -m bench pipeline --archive list.mbox.gz`.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.table import Row, medians

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples/sample/harbour-list.mbox"
SAMPLE_COPIES = 20
REPEATS = 3
GROWN = int(os.environ.get("BENCH_GROWN", "0"))
"""How many times as large the archive is made to measure memory; 0: not measured, for it takes long."""


def run(archive: Path | None = None) -> list[Row]:
    """Measure speed, and memory if asked for."""
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        scratch = Path(folder)
        if archive is None:
            archive = scratch / "sample.mbox"
            write_copies(SAMPLE, archive, SAMPLE_COPIES)
        rows = _speed(archive, scratch)
        if GROWN:
            rows += _memory(archive, scratch)
        return rows


def write_copies(archive: Path, target: Path, copies: int) -> None:
    """Write an archive several times over; every copy has Message-IDs of its own, so all are new."""
    whole = gzip.decompress(archive.read_bytes()) if archive.suffix == ".gz" else archive.read_bytes()
    with target.open("wb") as file:
        for copy in range(copies):
            prefix = b"<%d." % copy
            file.write(re.sub(rb"<(?=[^<>@\s]+@)", prefix, whole) if copy else whole)


def ingest(
    archive: Path,
    home: Path,
    watch: Callable[[int], None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> int:
    """Run `onward ingest` as a user does; return the number of messages."""
    shutil.rmtree(home, ignore_errors=True)
    command = [sys.executable, "-m", "onward", "ingest", str(archive), "--json"]
    process = subprocess.Popen(
        command,
        env={**os.environ, **(settings or {}), "ONWARD_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if watch is not None:
        watch(process.pid)
    output, _ = process.communicate()
    if process.returncode not in (0, 3):
        raise RuntimeError(f"onward ingest ended with {process.returncode}")
    (source,) = json.loads(output)["sources"]
    return int(source["messages"]["messages"])


def compile_modules() -> None:
    """Compile what both programs import, as an installer does: else each process would compile it anew."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src"), str(ROOT / "bench")], check=True)


def _straight(archive: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.straight", str(archive), str(target)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def _speed(archive: Path, scratch: Path) -> list[Row]:
    count = 0
    compile_modules()

    def ours() -> float:
        nonlocal count
        began = time.perf_counter()
        count = ingest(archive, scratch / "home")
        return count / (time.perf_counter() - began)

    def script() -> float:
        began = time.perf_counter()
        _straight(archive, scratch / "straight.db")
        return count / (time.perf_counter() - began)

    rates = medians({"ours": ours, "script": script}, REPEATS)
    measure = f"{count:,} mails to search and summaries"
    cores = os.cpu_count()
    return [
        Row("onward ingest", True, rates["ours"], f"crash-safe, whole command, {cores} cores", measure),
        Row("straight-line script", False, rates["script"], "the same work, no durability, one core", measure),
    ]


def _memory(archive: Path, scratch: Path) -> list[Row]:
    grown = scratch / "grown.mbox"
    write_copies(archive, grown, GROWN)
    rows = []
    for name, path in (("as it is", archive), (f"{GROWN} times as large", grown)):
        watched = _Watched()
        ingest(path, scratch / "home", watched)
        note = f"{path.stat().st_size / 1e6:,.0f} MB of mail; MB, all processes together, at their highest"
        rows.append(Row(name, False, watched.peak, note, "memory of onward ingest"))
    return rows


class _Watched:
    """Watches a process and its children until it ends: the most memory they held together, in MB."""

    peak = 0.0

    def __call__(self, pid: int) -> None:
        while held := sum(map(_held, [pid, *_children(pid)])):
            self.peak = max(self.peak, held / 1e6)
            time.sleep(0.2)


def _held(pid: int) -> int:
    """What a process holds for itself alone, without the pages of files that it maps."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> list[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(number) for number in listed]
