"""The process that reads feeds: feedparser takes hours for some that were made to do harm.

It reads a line of JSON and the feed from its standard input, and writes its items as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, TypedDict

from onward.pipeline.fetch.fetch_errors import Broken, TooLarge
from onward.pipeline.read.child_process import end_with_parent, limit_process

PROCESSOR_SECONDS = 60.0
MEMORY_BYTES = 2_000_000_000
WAIT_SECONDS = 300.0  # more, for the machine may be busy


class Item(TypedDict):
    """An item of a feed; what it does not have is empty."""

    id: str
    link: str
    title: str
    author: str
    published: str
    updated: str
    summary: str
    content: str  # its whole text


def read_feed(data: bytes, url: str, media_type: str) -> list[Item]:
    """Return the items of a feed, in its order."""
    head = {"url": url, "media_type": media_type, "seconds": PROCESSOR_SECONDS}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "onward.pipeline.source_kinds.feed_process"],
            input=json.dumps(head).encode() + b"\n" + data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=WAIT_SECONDS,
        )
        result = json.loads(done.stdout) if done.returncode == 0 else None
    except subprocess.TimeoutExpired:
        result = None
    if result is None:
        raise TooLarge(
            f"reading {url} takes more than {PROCESSOR_SECONDS:g} s of processor time or {MEMORY_BYTES:,} bytes "
            "of memory: the feed may be damaged, or made to do harm"
        )
    if "problem" in result:
        cause = result["problem"]
        raise Broken(f"{url} is no feed that can be read ({cause}): give the URL of an RSS or Atom feed")
    items: list[Item] = result["items"]
    return items


def main() -> None:
    end_with_parent()
    head = json.loads(sys.stdin.buffer.readline())
    limit_process(head["seconds"], MEMORY_BYTES)
    headers = {"content-location": head["url"]}
    if head["media_type"]:
        headers["content-type"] = head["media_type"]
    try:
        result: dict[str, object] = _read(sys.stdin.buffer.read(), headers)
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        result = {"problem": f"its reader failed with {type(error).__name__}: {error}"[:500]}
    sys.stdout.write(json.dumps(result))


def _read(data: bytes, headers: dict[str, str]) -> dict[str, object]:
    import feedparser  # here, for the process of the worker does not need it

    feed = feedparser.parse(data, response_headers=headers)
    if not feed.get("version") and not feed.entries:
        return {"problem": str(feed.get("bozo_exception", "it has no items"))}
    return {"items": [_item(entry) for entry in feed.entries]}


def _item(entry: dict[str, Any]) -> Item:
    def text(name: str) -> str:
        # Not with the method of the item, which warns that a name means another one, too.
        return str(dict.get(entry, name) or "")

    content = "\n".join(part.get("value") or "" for part in dict.get(entry, "content") or ())
    return Item(
        id=text("id"),
        link=text("link"),
        title=text("title"),
        author=text("author"),
        published=text("published"),
        updated=text("updated"),
        summary=text("summary"),
        content=content.strip("\n"),
    )


if __name__ == "__main__":
    main()
