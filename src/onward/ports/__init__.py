"""The protocols that backends implement and everything else relies on."""

from onward.ports.blobs import Blob, BlobMissing, Blobs
from onward.ports.bus import Bus
from onward.ports.clock import Clock, SystemClock
from onward.ports.recovery import Key, Recovery
from onward.ports.store import Reader, Store, StoreConflict, StoreError, StoreFull, StoreUnavailable

__all__ = [
    "Blob",
    "BlobMissing",
    "Blobs",
    "Bus",
    "Clock",
    "Key",
    "Reader",
    "Recovery",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SystemClock",
]
