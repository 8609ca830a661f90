"""The protocols that backends implement and everything else relies on."""

from onward.ports.announcing import Announcing
from onward.ports.blobs import Blob, BlobMissing, Blobs
from onward.ports.bus import Bus
from onward.ports.clock import Clock, SystemClock
from onward.ports.recovery import Key, Recovery
from onward.ports.store import Reader, Store, StoreConflict, StoreError, StoreFull, StoreUnavailable
from onward.ports.wire import Announcement, Copy, Queue, Stranger, Wire, WireUnavailable

__all__ = [
    "Announcement",
    "Announcing",
    "Blob",
    "BlobMissing",
    "Blobs",
    "Bus",
    "Clock",
    "Copy",
    "Key",
    "Queue",
    "Reader",
    "Recovery",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Stranger",
    "SystemClock",
    "Wire",
    "WireUnavailable",
]
