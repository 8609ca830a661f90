"""What is special about blobs in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.blobs.folder import FolderBlobs
from onward.ledger.store_errors import StoreFull
from tests.blobs.places import put_bytes


def test_a_put_that_ends_meanwhile_does_not_disturb_the_search_for_old_blobs(tmp_path: Path) -> None:
    (tmp_path / "new-gone").symlink_to(tmp_path / "nowhere")  # it is listed, but there is no file any more
    assert not list(FolderBlobs(tmp_path).older_than(0))


def test_a_folder_that_cannot_be_written_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFull, match="ONWARD_BLOBS"):
        put_bytes(FolderBlobs(tmp_path / "file" / "blobs"), b"")
