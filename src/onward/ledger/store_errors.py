"""Errors that the store raises."""

from onward.retry import OnwardError


class StoreError(OnwardError):
    """The store refused. Trying again does not help; the message names the remedy."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now. Trying again may help."""


class StoreConflict(StoreUnavailable):
    """Two transactions conflicted, and nothing of this one was written. It may succeed when it is repeated."""


class StoreFull(StoreError):
    """The store cannot be written: the disk is full, or the file or its folder is read-only."""


class StoreGone(StoreFull):
    """The store was deleted, replaced or upgraded while it was open: this process cannot go on with it."""


class StoreOutdated(StoreGone):
    """A newer Onward has upgraded the store's tables, and this process is too old to write to them."""


class ServiceConflict(StoreError):
    """Two services would finish the same documents, or a service cannot take over the rows of another."""
