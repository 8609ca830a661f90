"""What is sent and returned for folders that are uploaded file by file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onward.console.api.schemas import ApiRequest, ApiResponse
from onward.ops.folder_uploads import MAX_FOLDER_FILES, MAX_PATH_CHARACTERS


class FolderFileSent(ApiRequest):
    """A file of a folder: where it is in the folder, and its bytes."""

    path: str = Field(
        min_length=1,
        max_length=MAX_PATH_CHARACTERS,
        description="Relative to the folder.",
        examples=["2026/tide.md"],
    )
    digest: str = Field(pattern="^[0-9a-f]{64}$", description="As `POST /v3/uploads` has returned it.")


class SubmittedFolder(ApiRequest):
    """A folder of files that were uploaded before; it becomes one source."""

    type: Literal["folder"]
    name: str = Field(min_length=1, max_length=200, description="What it is called.", examples=["reports"])
    files: list[FolderFileSent] = Field(min_length=1, max_length=MAX_FOLDER_FILES)


class UploadedFile(ApiResponse):
    """The bytes of a file, kept for a day unless a folder is submitted that names them."""

    digest: str = Field(description="The SHA-256 of its bytes, for the `files` of a folder.")
    size: int
