"""Several processes read the files of a source at the same time; the threads of each need mails of the others."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.pipeline.documents import Message, Thread
from onward.settings import load_settings
from tests.support.mail_forests import WrittenMail, assert_threads_are_right, every
from tests.support.pipeline_runs import mbox

pytestmark = pytest.mark.prove

TREES, MAILS = 12, 25


def forest(chance: random.Random) -> list[WrittenMail]:
    """Trees of mails in any order; each mail names only its parent, and some are replies by their subject."""
    mails: list[WrittenMail] = []
    for tree in range(TREES):
        first = len(mails)
        for n in range(MAILS):
            parent = first + chance.randrange(n) if n else None
            if n and chance.random() < 0.1:
                parent = None
            prefix = "Re: " if n else ""
            mails.append(WrittenMail(first + n, (), parent, f"{prefix}Tree {tree}", day=n / 4))
    return chance.sample(mails, len(mails))


@pytest.mark.parametrize("backend", ("sqlite", "postgres"))
def test_readers_that_do_not_see_each_other_end_with_the_same_threads(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, source = tmp_path / "home", tmp_path / "mail"
    url = f"sqlite:///{home}/onward.db" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    mails = forest(random.Random(8))
    source.mkdir()
    files = 20
    settings = {"ONWARD_HOME": str(home), "ONWARD_STORE": url}
    # The second time, each file has new mails, and one is gone.
    for part in (mails[: len(mails) // 2], mails):
        for n in range(files):
            (source / f"{n}.mbox").write_bytes(mbox(*(mail.text() for mail in part[n::files])))
        command = [sys.executable, "-m", "onward", "ingest", "--processes", "3", str(source)]
        done = subprocess.run(
            command, env={**os.environ, **settings}, cwd=tmp_path, capture_output=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    app = build(load_settings(settings))
    try:
        assert_threads_are_right(app)
        assert len(every(app, Message)) == len(mails)
        assert len(every(app, Thread)) == TREES, "a reply is not in the thread of its subject"
    finally:
        app.store.close()
