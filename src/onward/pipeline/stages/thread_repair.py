"""Thread repair: move messages to the thread that they belong to, where mails have come that join threads.

One thread repair of a source runs at a time. Readers of its archives do not wait for it: each message that they
store is compared with the others after its commit, so that the later one sees both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onward import App, Status, Work
from onward.pipeline.documents import Archive, Chunk, Message, Thread
from onward.pipeline.events import EmbeddingsGenerated, ThreadsDiverged
from onward.pipeline.read.message_reader import ReadMessage
from onward.pipeline.stages.attachments import in_thread
from onward.pipeline.stages.reading import index_message
from onward.pipeline.thread_index import RepairPlan, ThreadIndex

WAIT_SECONDS = 2.0
MAX_WAIT_SECONDS = 60.0
"""How long a repair waits for archives of its source that are being read.

Most mails that are missing come with them, so that each message is moved once, not once for each archive. An
archive that cannot be read for hours must not hold up the others.
"""
MESSAGE_PAGE, PAGE_CHARACTERS = 50, 500_000
CHUNK_PAGE = 300


def repair(app: App, event: ThreadsDiverged, work: Work) -> None:
    """Compare threads with the mails that they have, and move the messages that belong to another thread."""
    cursor: dict[str, Any] = work.cursor or {}
    if app.store.document_counts(event.source).get("archives", {}).get(Status.PENDING):
        since = cursor.setdefault("since", work.now)
        if work.now - since < MAX_WAIT_SECONDS:
            if work.cursor is None:
                work.checkpoint(cursor)
            work.wait(seconds=WAIT_SECONDS)
            return
    _Repair(app, work, {**cursor, "threads": sorted({*event.thread_ids, *cursor.get("threads", ())})}).run()


class _Repair:
    def __init__(self, app: App, work: Work, cursor: dict[str, Any]) -> None:
        self.app, self.work, self.cursor = app, work, cursor

    def run(self) -> None:
        # After a crash: messages were moved, and their attachments and chunks may not have been.
        self._move_with(self.cursor.pop("moved", []))
        plan = ThreadIndex(self.app).plan(self.cursor["threads"])
        if plan.changes:
            # A message that has left a thread cannot be found from there any more, only by what is noted here.
            self.cursor["threads"] = sorted(plan.threads | set(self.cursor["threads"]))
            self.work.checkpoint(self.cursor)
            self._move(plan)
        # Those that are empty now are removed with their summaries; the others are summarised again.
        self.work.emit(EmbeddingsGenerated(thread_ids=self.cursor["threads"]))

    def _move(self, plan: RepairPlan) -> None:
        # By thread, so that the messages of one move together.
        ids = sorted(plan.changes, key=lambda id: (plan.changes[id].thread, id))
        moved: list[str] = []
        size = 0
        for start in range(0, len(ids), MESSAGE_PAGE):
            for message in self.work.store.get_many(Message, ids[start : start + MESSAGE_PAGE]):
                if moved and size + len(message.body) > PAGE_CHARACTERS:
                    self._commit(moved)
                    moved, size = [], 0
                self._change(message, plan)
                moved.append(message.id)
                size += len(message.body)
            self._commit(moved)
            moved, size = [], 0

    def _change(self, message: Message, plan: RepairPlan) -> None:
        to = plan.changes[message.id]
        changed = message.model_copy(update={"thread_id": to.thread, "placeholders": to.placeholders})
        self.work.replace(changed, keep_results=True)
        if message.thread_id != to.thread:
            root = plan.roots.get(to.thread, "")
            thread = Thread(id=to.thread, source=message.source, root=root, subject=message.subject)
            self.work.add(thread, parent=None)
            self._index(changed)

    def _index(self, message: Message) -> None:
        """Index a message by its new thread, with the texts that it had."""
        _, text, quoted = self.app.store.indexed_texts(Message, [message.id]).get(
            message.id, ("", message.new_text(), message.quoted_text())
        )
        index_message(self.work, ReadMessage(message, text, quoted))

    def _commit(self, moved: Sequence[str]) -> None:
        """Commit moved messages, then move their attachments and chunks.

        In this order: what is being made of a message that was changed is refused, so that there is nothing else
        than what is read now.
        """
        if moved:
            self.work.checkpoint({**self.cursor, "moved": list(moved)})
            self._move_with(moved)

    def _move_with(self, messages: Sequence[str]) -> None:
        threads = {message.id: message.thread_id for message in self.work.store.get_many(Message, messages)}
        self._move_chunks(messages, threads | self._move_attachments(messages, threads))

    def _move_attachments(self, moved: Sequence[str], threads: Mapping[str, str]) -> dict[str, str]:
        """Move the attachments of mails to the threads of these; return the threads of their texts."""
        store, texts = self.work.store, dict[str, str]()
        archives = [row.id for row in store.children(Archive, Message, list(threads))]
        for start in range(0, len(archives), MESSAGE_PAGE):
            ids = archives[start : start + MESSAGE_PAGE]
            for archive in store.get_many(Archive, ids):
                if archive.attached_to is not None:
                    changed = in_thread(archive, threads[archive.attached_to.message_id])
                    if changed != archive:
                        self.work.replace(changed, keep_results=True)
            self.work.checkpoint({**self.cursor, "moved": list(moved)})
            for text in store.get_many(Message, [row.id for row in store.children(Message, Archive, ids)]):
                if text.attached_to is None:
                    continue
                thread = texts[text.id] = threads[text.attached_to.message_id]
                if text.thread_id != thread:
                    mail = text.attached_to.model_copy(update={"thread_id": thread})
                    moved_text = text.model_copy(update={"thread_id": thread, "attached_to": mail})
                    self.work.replace(moved_text, keep_results=True)
                    self._index(moved_text)
            self.work.checkpoint({**self.cursor, "moved": list(moved)})
        return texts

    def _move_chunks(self, moved: Sequence[str], threads: Mapping[str, str]) -> None:
        store = self.work.store
        ids = [row.id for row in store.children(Chunk, Message, list(threads))]
        for start in range(0, len(ids), CHUNK_PAGE):
            for chunk in store.get_many(Chunk, ids[start : start + CHUNK_PAGE]):
                if chunk.thread_id != threads[chunk.message_id]:
                    changed = chunk.model_copy(update={"thread_id": threads[chunk.message_id]})
                    self.work.replace(changed, keep_results=True)
            self.work.checkpoint({**self.cursor, "moved": list(moved)})
