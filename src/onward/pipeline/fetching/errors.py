"""Why a source, or a part of it, cannot be taken: one class for each thing that a user must tell apart."""

from __future__ import annotations

from onward import OnwardError, Permanent


class UnusableSource(Permanent):
    """It cannot be ingested as it is; the message says what is wrong and what to do."""


class SourceMissing(UnusableSource):
    """There is no such file or folder."""


class Unreadable(UnusableSource):
    """It exists, but may not be read."""


class NothingToIngest(UnusableSource):
    """It can be read, but holds no text: it is empty, or all of it was skipped."""


class NotWhatItClaims(UnusableSource):
    """Its name says one thing and its content another."""


class Broken(UnusableSource):
    """It is damaged or cut off."""


class Encrypted(UnusableSource):
    """It needs a password."""


class TooLarge(UnusableSource):
    """It is, or unpacks to, more than the limits allow."""


class UnsafeMember(UnusableSource):
    """A member of a container that no honest container needs: a path that leads out, a link, a device."""


class PrivateAddress(UnusableSource):
    """The URL leads to an address of a private network."""


class EndlessRedirects(UnusableSource):
    """The server sends us in circles, or too far."""


class Refused(UnusableSource):
    """The server answered that it will not give this."""

    # Not named HTTP…: a 401 here is about one source, and must not stop the others as a refused key would.
    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message, status_code)
        self.status_code = status_code

    def __str__(self) -> str:
        return str(self.args[0])


class HTTPAnswerError(OnwardError):
    """The server cannot answer now; `onward.classify` finds the status and the Retry-After it asked for."""

    def __init__(self, message: str, status_code: int, retry_after: str | None = None) -> None:
        super().__init__(message, status_code, retry_after)
        self.status_code = status_code
        self.headers = {} if retry_after is None else {"Retry-After": retry_after}

    def __str__(self) -> str:
        return str(self.args[0])
