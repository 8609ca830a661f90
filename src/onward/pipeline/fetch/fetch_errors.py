"""The errors of a fetch: one class for each cause that a user has to distinguish."""

from __future__ import annotations

from onward import OnwardError, Permanent


class UnusableSource(Permanent):
    """The source cannot be ingested; the message names the cause and the remedy."""


class SourceMissing(UnusableSource):
    """There is no such file or folder."""


class UnreadableSource(UnusableSource):
    """The source exists, but access is denied."""


class NothingToIngest(UnusableSource):
    """The source has no text: it is empty, or all of it was skipped."""


class NotWhatItClaims(UnusableSource):
    """The content of a file contradicts its name."""


class Broken(UnusableSource):
    """A file is damaged or cut off."""


class Encrypted(UnusableSource):
    """A file needs a password."""


class TooLarge(UnusableSource):
    """A file is, or unpacks to, more than the limits allow."""


class UnsafeMember(UnusableSource):
    """A member of a container with a path that leads out of it, a link or a device."""


class PrivateAddress(UnusableSource):
    """The URL leads to an address of a private network."""


class UnusableProxy(UnusableSource):
    """The environment names a proxy that cannot be used."""


class EndlessRedirects(UnusableSource):
    """The redirects of a server form a loop, or there are too many."""


class Refused(UnusableSource):
    """The server refused the request."""

    # Not named HTTP…: `onward.classify` must not read the status. A 401 here is about one source only.
    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message, status_code)
        self.status_code = status_code

    def __str__(self) -> str:
        return str(self.args[0])


class HTTPAnswerError(OnwardError):
    """The server cannot respond now; `onward.classify` reads the status and the Retry-After."""

    def __init__(self, message: str, status_code: int, retry_after: str | None = None) -> None:
        super().__init__(message, status_code, retry_after)
        self.status_code = status_code
        self.headers = {} if retry_after is None else {"Retry-After": retry_after}

    def __str__(self) -> str:
        return str(self.args[0])


def nothing_to_ingest(location: str, skipped: object) -> NothingToIngest:
    return NothingToIngest(
        f"there is nothing to ingest in {location!r}: {skipped}; give mail, web pages, PDF, Markdown, reST, "
        "source code or other text"
    )
