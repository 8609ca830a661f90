"""One session with an IMAP server: connect, log in, list folders and mails, and fetch mails unchanged."""

from __future__ import annotations

import contextlib
import imaplib
import ipaddress
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from onward.pipeline.fetch.fetch_errors import UnreadableSource, UnusableSource
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds.credentials import Account, Credentials
from onward.pipeline.source_kinds.imap_folders import Folder, listed_folders

PIECE_BYTES = 4_000_000  # of a large mail that is fetched at once
MAX_LINE_BYTES = 64_000_000  # the numbers of all mails of a folder are one line
MAX_RESPONSE_BYTES = 64_000_000  # to one command: all of it is in memory
ALL = "ALL"  # the mails of a folder, as a search
_MAX_TEXT = 300
_RECOGNISED_CHARACTERS = 8  # of a secret, from its beginning
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_BUSY_CODE = re.compile(r"\[(?:UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\b", re.IGNORECASE)
_BUSY_WORDS = re.compile(
    r"too many|maximum number of connections|try again|temporar|rate.?limit|throttl|overload|busy", re.IGNORECASE
)
# More failed tries would make it worse, whatever else the text says.
_REFUSED = re.compile(
    r"\[(?:AUTHENTICATIONFAILED|AUTHORIZATIONFAILED|EXPIRED|PRIVACYREQUIRED|CONTACTADMIN)\b"
    r"|\b(?:failed|invalid|wrong|bad|incorrect)\b.*\b(?:log.?ins?|attempts?|password|credentials)\b|\blocked\b",
    re.IGNORECASE,
)
_REFUSAL_WORDS = re.compile(r"authenticat|credential|password|log.?in|denied|blocked", re.IGNORECASE)


class WrongLogin(Exception):
    """The server refuses the login; the text is the server's."""


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server, and how a session with it is secured."""

    host: str
    port: int
    tls: bool  # from the first byte; without it STARTTLS, if that is offered
    plain: bool = False  # whether a password may be sent over a connection without TLS
    ca_file: str = ""
    connect_seconds: float = 30.0
    seconds: float = 300.0  # for a response

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Protocol(imaplib.IMAP4):
    """`imaplib` over a connection to an address that the guard allows."""

    # All methods that touch the connection are replaced: a part of the library that was renamed could not lead
    # around the guard.

    def __init__(self, server: Server, address: str) -> None:
        self._server, self._address = server, address
        self.encrypted = False
        self._received = 0  # since the last command
        super().__init__(server.host, server.port)

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:
        connection = socket.create_connection((self._address, self._server.port), self._server.connect_seconds)
        try:
            self._take(connection, tls=self._server.tls)
        except BaseException:
            connection.close()
            raise

    def _take(self, connection: socket.socket, *, tls: bool) -> None:
        if tls:
            try:
                context = ssl.create_default_context(cafile=self._server.ca_file or None)
            except (OSError, ssl.SSLError) as error:
                reason = getattr(error, "strerror", "") or type(error).__name__
                raise UnusableSource(
                    f"the CA file {self._server.ca_file!r} cannot be used ({reason}): give a file with "
                    "certificates in PEM form as ca_file"
                ) from None
            connection = context.wrap_socket(connection, server_hostname=self._server.host)
        self.encrypted = tls
        self.connection = connection
        self._stream = connection.makefile("rb")

    def read(self, size: int) -> bytes:
        self._count(size)
        return self._stream.read(size)

    def readline(self) -> bytes:
        line = self._stream.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise self.abort(f"the server sends a line of more than {MAX_LINE_BYTES:,} bytes")
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        self._received += size
        if self._received > MAX_RESPONSE_BYTES:
            raise self.abort(f"the server sends more than {MAX_RESPONSE_BYTES:,} bytes for one command")

    def send(self, data: Any) -> None:  # Any: bytes or a buffer, as the library has it
        self._received = 0
        self.connection.sendall(data)

    def shutdown(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def socket(self) -> socket.socket:
        return self.connection

    def start_tls(self) -> None:
        done, text = self.xatom("STARTTLS")
        if done != "OK":
            raise ConnectionError(f"{self._server}: the server offers STARTTLS and refuses it: {shown_text(text)}")
        self._stream.close()  # what was sent before TLS is not trusted
        self._take(self.connection, tls=True)


class ImapSession:
    """A session with a server. Folders are only examined: no flag of a mail changes."""

    def __init__(self, server: Server, guard: AddressGuard) -> None:
        self.server = server
        self._protocol = self._connected(guard)
        try:
            with self._errors():
                self._secure()
        except BaseException:
            self._protocol.shutdown()
            raise
        self._protocol.connection.settimeout(server.seconds)

    def close(self) -> None:
        with contextlib.suppress(imaplib.IMAP4.error, OSError, ValueError):
            self._protocol.connection.settimeout(self.server.connect_seconds)
            self._protocol.logout()
        self._protocol.shutdown()

    def _connected(self, guard: AddressGuard) -> _Protocol:
        *others, last = guard.addresses(self.server.host, self.server.port)
        with self._errors():
            for address in others:
                with contextlib.suppress(OSError):
                    return _Protocol(self.server, address)
            return _Protocol(self.server, last)

    def _secure(self) -> None:
        protocol = self._protocol
        if not self.server.tls and "STARTTLS" in self._capabilities() and protocol.state == "NONAUTH":
            protocol.start_tls()
        peer = str(protocol.connection.getpeername()[0])
        loopback = ipaddress.ip_address(peer.partition("%")[0]).is_loopback
        if not (protocol.encrypted or self.server.plain or loopback):
            raise UnusableSource(
                f"{self.server} offers no TLS, so the password could be read on its way: use imaps://, or add the "
                "option plain=yes if the network is safe"
            )

    def _capabilities(self) -> set[str]:
        _, found = self._protocol.capability()
        return {word.upper() for line in found if line for word in line.decode("ascii", "replace").split()}

    def log_in(self, account: Account, credentials: Credentials) -> None:
        """Log in, with one try; raise `WrongLogin` if the server refuses, `ConnectionError` if it cannot now."""
        if self._protocol.state != "NONAUTH":
            return  # the server knows who connects
        secret = credentials.token(account) if credentials.command else credentials.password
        with self._errors():
            capabilities = self._capabilities()
        if "LOGINDISABLED" in capabilities and "AUTH=PLAIN" not in capabilities and not credentials.command:
            raise UnusableSource(
                f"{self.server} takes no password here: use imaps://, or a token (see the how-to on IMAP)"
            )
        try:
            with self._errors():
                self._send_login(account.user, secret, capabilities, token=bool(credentials.command))
        except (_Answered, ConnectionClosed) as answer:
            text = without_login(answer.text, account.user, secret)
            if is_refusal(answer.text, closed=isinstance(answer, ConnectionClosed)):
                raise WrongLogin(text) from None
            raise ConnectionError(f"{self.server} cannot log {account} in now: {text}") from None

    def _send_login(self, user: str, secret: str, capabilities: set[str], *, token: bool) -> None:
        if token:
            first = f"user={user}\1auth=Bearer {secret}\1\1".encode()
            answers = iter((first,))  # what follows an error of the server is empty
            self._protocol.authenticate("XOAUTH2", lambda _: next(answers, b""))
        elif "AUTH=PLAIN" in capabilities:  # unlike LOGIN, it is defined for all characters
            self._protocol.authenticate("PLAIN", lambda _: f"\0{user}\0{secret}".encode())
        elif user.isascii() and secret.isascii():
            self._protocol.login(user, secret)
        else:
            raise UnusableSource(f"{self.server} takes only passwords of ASCII characters")

    # -- reading

    def folders(self) -> list[Folder]:
        """Return all folders, also those without mails of their own."""
        try:
            with self._errors():
                return listed_folders(self._checked(self._protocol.list('""', "*")))
        except _Answered as answer:
            said = answer.text or "NO"
            raise ConnectionError(f"{self.server} cannot list its folders now, it answered {said}") from None

    def examine(self, folder: Folder) -> str:
        """Open a folder for reading; return its UIDVALIDITY. Raise `UnreadableSource` if it cannot be opened."""
        if re.search(rb"[\r\n\0]", folder.raw):
            raise UnreadableSource(f"the folder {folder.name!r} has a name that no command can have: rename it")
        name = b'"' + re.sub(rb'(["\\])', rb"\\\1", folder.raw) + b'"'
        with self._refusals(f"the folder {folder.name!r} cannot be opened"):
            # The library encodes text only; bytes are sent as they are.
            self._checked(self._protocol.select(name, readonly=True))  # type: ignore[arg-type]
        _, found = self._protocol.response("UIDVALIDITY")
        if not found or not found[0]:
            raise UnreadableSource(f"the server gives no UIDVALIDITY of the folder {folder.name!r}")
        return str(found[0], "ascii", "replace")

    def uids(self, folder: Folder, criteria: str) -> list[int]:
        """Return the UIDs of the mails in the open folder, the highest first."""
        with self._refusals(f"the mails of the folder {folder.name!r} cannot be listed"):
            lines = self._checked(self._protocol.uid("SEARCH", criteria))
        found = sorted({int(uid) for line in lines if line for uid in line.split()}, reverse=True)
        _, counted = self._protocol.response("EXISTS")
        if criteria == ALL and not found and any(count not in (None, b"0") for count in counted):
            raise UnreadableSource(
                f"the server lists no mail of the folder {folder.name!r}, though it counts some"
            )
        return found

    def sizes(self, uids: Sequence[int]) -> dict[int, int]:
        """Return the sizes of mails of the open folder; those that are gone are left out."""
        lines = self._fetched(uids, "RFC822.SIZE")
        sizes: dict[int, int] = {}
        for line in lines:
            text = line[0] if isinstance(line, tuple) else line or b""
            if (uid := _UID.search(text)) and (size := _SIZE.search(text)):
                sizes[int(uid[1])] = int(size[1])
        return sizes

    def mails(self, uids: Sequence[int]) -> dict[int, bytes]:
        """Return mails of the open folder; those that are gone are left out."""
        lines = self._fetched(uids, "BODY.PEEK[]")
        mails: dict[int, bytes] = {}
        for line, following in zip(lines, [*lines[1:], None], strict=True):
            if isinstance(line, tuple):
                # Its UID comes before or after the mail.
                uid = _UID.search(line[0]) or (_UID.search(following) if isinstance(following, bytes) else None)
                if uid:
                    mails[int(uid[1])] = line[1]
            elif line and b'BODY[] ""' in line and (uid := _UID.search(line)):
                mails[int(uid[1])] = b""
        return mails

    def copy_mail(self, uid: int, size: int, target: BinaryIO) -> None:
        """Write a large mail of the open folder, in pieces, until the server has no more."""
        start = 0
        while True:
            lines = self._fetched([uid], f"BODY.PEEK[]<{start}.{PIECE_BYTES}>")
            piece = next((line[1] for line in lines if isinstance(line, tuple) and b"BODY[]" in line[0]), b"")
            target.write(piece)
            start += len(piece)
            if not start:
                raise UnreadableSource("the mail is no longer there")
            # A size may be wrong, and a piece may be smaller than was asked for.
            if not piece or (len(piece) < PIECE_BYTES and start >= size):
                return

    def _fetched(self, uids: Sequence[int], what: str) -> list[Any]:  # Any: bytes, or tuples with a literal
        with self._refusals("the server does not send the mail"):
            return self._checked(self._protocol.uid("FETCH", _ranges(uids), f"(UID {what})"))

    # -- errors

    @staticmethod
    def _checked(response: tuple[str, list[Any]]) -> list[Any]:
        done, data = response
        if done != "OK":
            raise _Answered(shown_text(data))
        return data

    @contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        """Turn a refusal of the server into a problem of that folder or mail alone."""
        try:
            with self._errors():
                yield
        except _Answered as answer:
            self._protocol.response("FETCH")  # what came before the refusal
            raise UnreadableSource(f"{what}: {self.server} answered {answer.text or 'NO'}") from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of the connection into errors that name the server and the remedy."""
        server = self.server
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise UnusableSource(
                f"the certificate of {server} is not trusted ({error.verify_message}): use the host name that it "
                "was issued for; for a certificate of your own, add the option ca_file=FILE"
            ) from None
        except ssl.SSLError as error:
            if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
                raise UnusableSource(
                    f"{server} does not speak TLS from the beginning: use imap:// (STARTTLS), or another port"
                ) from None
            raise ConnectionError(f"{server}: the TLS connection failed: {error.reason or error}") from error
        except TimeoutError as error:
            raise TimeoutError(f"{server} did not answer in time: check host and port, and the network") from error
        except ConnectionRefusedError as error:
            raise ConnectionError(
                f"{server} refuses connections: check host and port, and whether the IMAP server runs"
            ) from error
        except imaplib.IMAP4.abort as error:
            raise ConnectionClosed(server, _words(str(error))) from error
        except imaplib.IMAP4.error as error:
            if getattr(self, "_protocol", None) is None:
                raise ConnectionError(f"{server} does not take this connection: {_words(str(error))}") from error
            raise _Answered(_words(str(error))) from error
        except OSError as error:
            if isinstance(error, ConnectionError) and error.errno is None:
                raise  # it was worded here
            raise ConnectionError(f"{server} cannot be reached: {error.strerror or error}") from error


class _Answered(Exception):
    """The server answered a command with NO or BAD; the text is the server's."""

    @property
    def text(self) -> str:
        return str(self.args[0])


class ConnectionClosed(ConnectionError):
    """The server closed the connection, or sent something that is not IMAP."""

    def __init__(self, server: Server, text: str) -> None:
        super().__init__(f"{server} closed the connection: {text}")
        self.text = text


def is_refusal(text: str, *, closed: bool) -> bool:
    """Return whether a server refuses a login, by what it said when it answered, or `closed` the connection.

    In doubt an answer is a refusal: another try with the same password could lock the account.
    """
    if _REFUSED.search(text):
        return True
    if _BUSY_CODE.search(text) or _BUSY_WORDS.search(text):
        return False
    return not closed or _REFUSAL_WORDS.search(text) is not None


def without_login(text: str, user: str, secret: str) -> str:
    """Return a server's text up to where it repeats the secret of a login, in any form in which it was sent."""
    sent = [f"\0{user}\0{secret}", f"user={user}\1auth=Bearer {secret}\1\1"]
    forms = [secret, re.sub(r'(["\\])', r"\\\1", secret), *(b64encode(one.encode()).decode() for one in sent)]
    for form in forms:
        # The text may be cut off in the middle of it.
        before, found, _ = text.partition(form[:_RECOGNISED_CHARACTERS])
        text = f"{before}***" if found else text
    return text


def shown_text(lines: Sequence[object]) -> str:
    return _words(" ".join(line.decode("utf-8", "replace") for line in lines if isinstance(line, bytes)))


def _words(text: str) -> str:
    """Return a server's text without control characters, which must not reach a terminal, and without the b''."""
    text = re.sub(r"""^b(['"])(.*)\1$""", r"\2", text, flags=re.DOTALL)
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_MAX_TEXT]


def _ranges(uids: Sequence[int]) -> str:
    """Return UIDs as an IMAP set, with ranges of neighbours: "1:3,7"."""
    parts: list[list[int]] = []
    for uid in sorted(uids):
        if parts and uid == parts[-1][1] + 1:
            parts[-1][1] = uid
        else:
            parts.append([uid, uid])
    return ",".join(f"{first}:{last}" if first < last else f"{first}" for first, last in parts)


def check_ca_file(path: str) -> str:
    if path and not Path(path).expanduser().is_file():
        raise ValueError(f"the file {path!r} does not exist")
    return str(Path(path).expanduser()) if path else ""
