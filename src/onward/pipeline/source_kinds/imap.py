"""IMAP mailboxes: all folders of an account, or one; each mail is fetched once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from functools import partial
from itertools import islice
from typing import BinaryIO
from urllib.parse import quote, unquote

from onward.pipeline.fetch.fetch_errors import SourceMissing, TooLarge, UnreadableSource, UnusableSource
from onward.pipeline.source_kinds.credentials import Account, Credentials, find_credentials
from onward.pipeline.source_kinds.imap_client import ALL, ImapSession, Server, WrongLogin, check_ca_file
from onward.pipeline.source_kinds.imap_folders import INBOX, Folder, chosen_folders
from onward.pipeline.source_kinds.refused_logins import LoginRefused, login_name
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

BATCH_MAILS = 200  # whose sizes are asked for at once
BATCH_BYTES = 4_000_000  # of mails that are fetched at once and kept in memory
MEDIA_TYPE = "message/rfc822"
_PORTS = {"imap": 143, "imaps": 993}
_EXAMPLE = "give imaps://USER@HOST/ for all folders, or imaps://USER@HOST/INBOX for one"
_LOCATION = re.compile(r"(imaps?)://([^/]*)(?:/(.*))?", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@\[\]%<>\"\\^`{|}?#]+)(?::(\d{1,5}))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise ValueError("give a day as 2026-01-31") from None


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("give yes or no")
    return text == "yes"


class ImapMailbox:
    """The mails of an account. The path of a mail is its folder and its UID, its version is the UIDVALIDITY.

    A mail never changes, so it is fetched once. If the UIDVALIDITY of a folder changes, its mails are fetched
    anew: messages are known by Message-ID and body, so none of them is doubled.
    """

    name = "IMAP mailbox"
    schemes = ("imap", "imaps")
    options = (
        SourceOption("folders", "", "only these folders, with commas; * and ? stand for other characters", _names),
        SourceOption(
            "exclude",
            "trash,junk",
            "not these folders, as names or as trash, junk, drafts, sent (what a server marks as such)",
            _names,
        ),
        SourceOption("since", "", "only mails that arrived on this day or later, as 2026-01-31", _day),
        SourceOption("ca_file", "", "a file with the certificate that signed the server's", check_ca_file),
        SourceOption("plain", "no", "yes: send the password without TLS, if the server has no TLS", _yes),
    )

    def canonical(self, location: str) -> str:
        scheme, account, port, folder = _parts(location)
        at = "" if port == _PORTS[scheme] else f":{port}"
        path = "/".join(quote(part, safe=" ") for part in folder.split("/"))
        return f"{scheme}://{quote(account.user, safe='')}@{account.host}{at}/{path}"

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        scheme, account, port, wanted = _parts(run.location)
        options = self._parsed(run.options)
        server = Server(
            account.host.strip("[]"),
            port,
            tls=scheme == "imaps",
            plain=bool(options["plain"]),
            ca_file=str(options["ca_file"]),
            connect_seconds=run.limits.connect_seconds,
            seconds=run.limits.seconds,
        )
        with closing(_logged_in(run, server, account)) as session:
            folders = session.folders()
            if not any(folder.selectable for folder in folders):
                raise ConnectionError(f"{server} lists no folder of {account}, not even {INBOX}: try again later")
            if wanted:
                chosen = [_named(folders, wanted, server)]
            else:
                include, exclude = _sequence(options["folders"]), _sequence(options["exclude"])
                chosen = chosen_folders(folders, include, exclude)
                if include and not chosen:  # more likely a slip than the wish to have no mail
                    raise SourceMissing(
                        f"{server} has no folder that the options folders={','.join(include)} and "
                        f"exclude={','.join(exclude)} leave; there are: {_names_of(folders)}"
                    )
            criteria = _criteria(options["since"])
            for folder in chosen:
                yield from _mails(run, session, folder, criteria)

    def _parsed(self, given: Mapping[str, str]) -> dict[str, object]:
        return {option.name: option.parse(given.get(option.name, option.default)) for option in self.options}


def _criteria(since: object) -> str:
    return f"SINCE {since.day}-{_MONTHS[since.month - 1]}-{since.year}" if isinstance(since, date) else ALL


def _sequence(value: object) -> Sequence[str]:
    return value if isinstance(value, tuple) else ()


def _parts(location: str) -> tuple[str, Account, int, str]:
    """Return the scheme, the account, the port and the folder of a location; raise `UnusableSource`."""
    match = _LOCATION.fullmatch(location.strip())
    if match is None:
        raise UnusableSource(f"the location of the mailbox is wrong: {_EXAMPLE}")
    scheme, authority, folder = match[1].lower(), match[2], unquote(match[3] or "").strip("/")
    user, at, place = authority.rpartition("@")
    host = _HOST.fullmatch(place.lower())
    user, colon, _ = unquote(user).partition(":")
    shown = f"{scheme}://{quote(user, safe='@')}@{host[0] if host else 'HOST'}/"
    if colon:
        # The password is not repeated: this text is stored and logged.
        raise UnusableSource(
            f"the location has a password in it, and locations are stored and shown: give {shown} and the "
            "password by ONWARD_IMAP_PASSWORD or ~/.netrc; change it, if others could read the command"
        )
    if host is None or not 0 < int(host[2] or _PORTS[scheme]) < 65_536:
        raise UnusableSource(f"the location of the mailbox has no host that can be reached: {_EXAMPLE}")
    if not at or not user:
        raise UnusableSource(f"{scheme}://{host[0]}/ names no user: {_EXAMPLE}")
    if not user.isprintable() or not folder.isprintable():
        raise UnusableSource(f"the location {shown!r} has control characters in it: {_EXAMPLE}")
    first, slash, rest = folder.partition("/")
    folder = (INBOX if first.upper() == INBOX else first) + slash + rest
    return scheme, Account(user, host[1]), int(host[2] or _PORTS[scheme]), folder


def _logged_in(run: SourceRun, server: Server, account: Account) -> ImapSession:
    """Return a session; a password that the server has refused before is not sent again."""
    credentials = find_credentials(account, "imap")
    dependency = login_name(account.user, account.host)
    run.refused_logins.check(dependency, credentials.identity)
    session = ImapSession(server, run.guard)
    try:
        with run.refused_logins.one_at_a_time(dependency):
            run.refused_logins.check(dependency, credentials.identity)  # another run may have tried it meanwhile
            _log_in(run, session, account, credentials)
    except BaseException:
        session.close()
        raise
    return session


def _log_in(run: SourceRun, session: ImapSession, account: Account, credentials: Credentials) -> None:
    """Log in, and remember the result."""
    dependency, server = login_name(account.user, account.host), session.server
    try:
        session.log_in(account, credentials)
    except WrongLogin as answer:
        error = LoginRefused(
            dependency,
            f"{server} refuses the login: {str(answer) or 'it gives no reason'}",
            f"put the right password into {credentials.place} (many providers want an app password); if it is "
            f"right already, allow another try: onward breakers close {shlex.quote(dependency)}",
        )
        run.refused_logins.add(error, credentials.identity)
        raise error from None
    run.refused_logins.remove(dependency)


def _named(folders: Sequence[Folder], name: str, server: Server) -> Folder:
    """Return the folder of a source that has only one."""
    for folder in folders:
        if name in (folder.path, folder.name):
            if folder.selectable:
                return folder
            below = ", ".join(other.name for other in folders if other.name.startswith(name + "/")) or "none"
            raise UnusableSource(f"the folder {name!r} holds only folders, no mails: give one of them ({below})")
    raise SourceMissing(f"{server} has no folder {name!r}; there are: {_names_of(folders)}")


def _names_of(folders: Sequence[Folder]) -> str:
    return ", ".join(folder.name for folder in islice(folders, 20))


def _mails(run: SourceRun, session: ImapSession, folder: Folder, criteria: str) -> Iterator[Entry]:
    """Yield the mails of a folder: known ones at once, the others in batches, the newest first."""
    try:
        version = session.examine(folder)
        uids = session.uids(folder, criteria)
    except UnreadableSource as problem:
        yield Entry(folder.path, "", problem=problem)  # what is stored of it stays
        return
    new: list[int] = []
    for uid in uids:
        entry = Entry(f"{folder.path}/{uid}.eml", version, media_type=MEDIA_TYPE)
        if run.is_known(entry):
            yield entry
        else:
            new.append(uid)
    for start in range(0, len(new), BATCH_MAILS):
        yield from _fetched(run, session, folder, version, new[start : start + BATCH_MAILS])


def _fetched(
    run: SourceRun, session: ImapSession, folder: Folder, version: str, uids: Sequence[int]
) -> Iterator[Entry]:
    """Yield mails that are fetched in groups of at most `BATCH_BYTES`; a larger one is fetched in pieces."""

    def entry(uid: int, fetch: Callable[[BinaryIO], object]) -> Entry:

        def copy_to(target: BinaryIO) -> None:
            fetch(target)

        return Entry(f"{folder.path}/{uid}.eml", version, copy_to, media_type=MEDIA_TYPE, size=sizes[uid])

    def problem(uid: int, error: Exception) -> Entry:
        return Entry(f"{folder.path}/{uid}.eml", version, media_type=MEDIA_TYPE, problem=error)

    sizes = session.sizes(uids)
    group: list[int] = []
    size = 0
    for uid in (*(uid for uid in uids if uid in sizes), None):  # the others were deleted a moment ago
        if group and (uid is None or size + sizes[uid] > BATCH_BYTES):
            for one, content in _bodies(session, group):
                if isinstance(content, UnreadableSource):
                    yield problem(one, content)
                else:
                    yield entry(one, partial(_write, content))
            group, size = [], 0
        if uid is None:
            return
        if sizes[uid] > run.limits.max_file_bytes:
            most = f"{run.limits.max_file_bytes:,} bytes"
            yield problem(uid, TooLarge(f"the mail has {sizes[uid]:,} bytes, and at most {most} are read"))
        elif sizes[uid] > BATCH_BYTES:
            yield entry(uid, partial(session.copy_mail, uid, sizes[uid]))
        else:
            group.append(uid)
            size += sizes[uid]


def _bodies(session: ImapSession, uids: Sequence[int]) -> Iterator[tuple[int, bytes | UnreadableSource]]:
    """Yield mails with their contents, or why one cannot be fetched; those that are gone are left out."""
    try:
        mails = session.mails(uids)
    except UnreadableSource as error:
        if len(uids) == 1:
            yield uids[0], error
            return
        # One mail may be broken on the server: each is asked for alone.
        for uid in uids:
            yield from _bodies(session, [uid])
        return
    for uid in uids:
        if (content := mails.pop(uid, None)) is not None:
            yield uid, content


def _write(content: bytes, target: BinaryIO) -> None:
    target.write(content)
