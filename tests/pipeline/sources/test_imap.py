"""An IMAP mailbox as a kind of source: what is listed and fetched, from a real server."""

from __future__ import annotations

import imaplib
import io
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from onward.pipeline.fetch import FetchLimits
from onward.pipeline.fetch.fetch_errors import PrivateAddress, SourceMissing, UnreadableSource, UnusableSource
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds import Entry, SourceRun
from onward.pipeline.source_kinds.imap import BATCH_BYTES, BATCH_MAILS, ImapMailbox
from onward.pipeline.source_kinds.imap_client import is_refusal, without_login
from onward.pipeline.source_kinds.refused_logins import LoginRefused, RefusedLogins
from tests.support.servers import Dovecot

KIND = ImapMailbox()


def mail(number: int, body: str = "Hello") -> bytes:
    return f"From: ada@example.org\r\nMessage-ID: <{number}@example.org>\r\n\r\n{body} {number}\r\n".encode()


@dataclass
class Mirror:
    """What the engine stores of a source: versions and contents by path."""

    location: str
    options: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    refused_logins: RefusedLogins = field(default_factory=RefusedLogins)
    limits: FetchLimits = field(default_factory=FetchLimits)
    guard: AddressGuard = field(default_factory=lambda: AddressGuard(allow_private=True))

    def entries(self) -> Iterator[Entry]:
        run = SourceRun(
            KIND.canonical(self.location),
            self.options,
            self.versions,
            self.limits,
            self.guard,
            refused_logins=self.refused_logins,
        )
        return KIND.entries(run)

    def update(self) -> tuple[int, dict[str, Exception]]:
        """List the source once; return how many mails were fetched, and the problems by path."""
        fetched, problems, listed = 0, {}, set()
        for entry in self.entries():
            assert entry.path not in listed, "a path came twice"
            listed.add(entry.path)
            if entry.problem is not None:
                problems[entry.path] = entry.problem
            elif self.versions.get(entry.path) != entry.version:
                target = io.BytesIO()
                entry.fetch(target)
                self.versions[entry.path], self.contents[entry.path] = entry.version, target.getvalue()
                fetched += 1
        for path in self.versions.keys() - listed:
            if not any(path.startswith(problem + "/") for problem in problems):
                del self.versions[path], self.contents[path]
        return fetched, problems


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD_ADA_127_0_0_1", "ada's secret")
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD_ADA_LOCALHOST", "ada's secret")
    monkeypatch.setenv("ONWARD_NETRC", "")


@pytest.fixture
def mirror(mail_server: Dovecot) -> Mirror:
    return Mirror(mail_server.location("ada"))


def test_an_empty_mailbox_has_no_mails(mirror: Mirror) -> None:
    assert mirror.update() == (0, {})


def test_each_mail_is_fetched_once_and_none_is_marked_as_read(mirror: Mirror, mail_server: Dovecot) -> None:
    mails = [mail(number) for number in range(2 * BATCH_MAILS + 1)]
    mail_server.deliver("ada", mails)
    assert mirror.update() == (len(mails), {})
    assert sorted(mirror.contents.values()) == sorted(mails)
    mail_server.deliver("ada", [mail(1_000)])
    assert mirror.update() == (1, {})
    with mail_server.client("ada") as client:
        client.select("INBOX")
        assert client.search(None, "UNSEEN")[1] == client.search(None, "ALL")[1]
        assert client.search(None, "RECENT")[1] != [b""], "the folder was selected, not examined"
        client.store("1:*", "+FLAGS", r"(\Seen \Flagged)")
    assert mirror.update() == (0, {})


def test_what_is_deleted_or_moved_is_no_longer_listed(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", map(mail, range(9)))
    mail_server.deliver("ada", [mail(100)], "Old")
    mirror.update()
    with mail_server.client("ada") as client:
        client.create("Lists/git")
        client.select("INBOX")
        client.uid("MOVE", "2:3", "Lists/git")
        client.uid("STORE", "5", "+FLAGS", r"(\Deleted)")
        client.expunge()
        client.delete("Old")
    assert mirror.update() == (2, {})
    expected = {f"INBOX/{uid}.eml": mail(uid - 1) for uid in (1, 4, 6, 7, 8, 9)}
    assert mirror.contents == expected | {"Lists/git/1.eml": mail(1), "Lists/git/2.eml": mail(2)}


def test_another_uidvalidity_lists_all_mails_of_the_folder_anew(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", map(mail, range(5)))
    mail_server.deliver("ada", [mail(100)], "Other")
    mirror.update()
    before = dict(mirror.contents)
    with mail_server.client("ada") as client:
        client.select("INBOX")
        client.uid("STORE", "1", "+FLAGS", r"(\Deleted)")
        client.expunge()
    mail_server.renumber("ada")
    assert mirror.update() == (4, {})
    # What was number 2 is number 1 now.
    assert mirror.contents == {f"INBOX/{uid}.eml": mail(uid) for uid in (1, 2, 3, 4)} | {
        "Other/1.eml": before["Other/1.eml"]
    }


@pytest.mark.parametrize("separator", ("/", ".", "\\\\"))
def test_folders_may_have_any_name(needs_dovecot: None, separator: str) -> None:
    names = {"R&AOk-sum&AOk-s": "Résumés", "&ZeVnLIqe-": "日本語", "R&-D": "R&D", "100%": "100%25", 'a\\"b': 'a"b'}
    names |= {"two words": "two words", "a*b": "a*b", "(x)": "(x)"}
    with Dovecot({"ada": "ada's secret"}, separator=f'"{separator}"') as server:
        with server.client("ada") as client:
            for number, name in enumerate(names):
                folder = f'"{name}{separator}sub"'
                assert client.create(folder)[0] == "OK", folder
                client.append(folder, "", imaplib.Time2Internaldate(0), mail(number))
        mirror = Mirror(server.location("ada"))
        assert mirror.update() == (len(names), {})
        assert mirror.contents == {f"{name}/sub/1.eml": mail(number) for number, name in enumerate(names.values())}
        one = Mirror(server.location("ada", "Résumés/sub"))
        assert one.update() == (1, {})
        assert one.contents.keys() == {"Résumés/sub/1.eml"}


def test_a_source_of_one_folder_has_no_other(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail(1)])
    mail_server.deliver("ada", [mail(2)], "Trash")
    only = Mirror(mail_server.location("ada", "inbox"))
    assert only.update() == (1, {})
    trash = Mirror(mail_server.location("ada", "Trash"))
    assert trash.update() == (1, {})
    with pytest.raises(SourceMissing, match="no folder 'Lists'; there are: INBOX, Trash"):
        Mirror(mail_server.location("ada", "Lists")).update()


def test_trash_and_junk_are_left_out_unless_asked_for(mirror: Mirror, mail_server: Dovecot) -> None:
    for number, folder in enumerate(("", "Trash", "Unwanted mail", "Lists.git", "Lists.linux")):
        mail_server.deliver("ada", [mail(number)], folder)
    mirror.update()
    assert {path.rpartition("/")[0] for path in mirror.contents} == {"INBOX", "Lists/git", "Lists/linux"}
    mirror.options = {"exclude": "", "folders": "INBOX,trash,Lists/g*"}
    mirror.update()
    assert {path.rpartition("/")[0] for path in mirror.contents} == {"INBOX", "Trash", "Lists/git"}


def test_folders_of_which_none_is_there_fail_the_source_instead_of_emptying_it(
    mirror: Mirror, mail_server: Dovecot
) -> None:
    mail_server.deliver("ada", [mail(1)])
    mirror.update()
    mirror.options = {"folders": "Inbx"}
    with pytest.raises(SourceMissing, match="folders=Inbx and exclude=trash,junk leave; there are: INBOX"):
        mirror.update()
    assert len(mirror.contents) == 1


def test_only_mails_since_a_day(mirror: Mirror, mail_server: Dovecot) -> None:
    with mail_server.client("ada") as client:
        for number, day in enumerate(("31-Dec-2025", "01-Jan-2026", "02-Jan-2026")):
            client.append("INBOX", "", f'"{day} 12:00:00 +0000"', mail(number))
    mirror.options = {"since": "2026-01-01"}
    assert mirror.update() == (2, {})
    assert set(mirror.contents.values()) == {mail(1), mail(2)}


def test_a_folder_that_cannot_be_opened_is_a_problem_of_that_folder_only(
    mirror: Mirror, mail_server: Dovecot
) -> None:
    mail_server.deliver("ada", [mail(1)])
    mail_server.deliver("ada", [mail(2)], "Locked")
    mirror.update()
    mail_server.deliver("ada", [mail(3)])
    folder = mail_server.maildir("ada", "Locked")
    folder.chmod(0)
    try:
        fetched, problems = mirror.update()
    finally:
        folder.chmod(0o700)
    assert fetched == 1
    assert problems.keys() == {"Locked"}
    assert isinstance(problems["Locked"], UnreadableSource)
    assert mirror.contents["Locked/1.eml"] == mail(2)
    assert mirror.update() == (0, {})


def test_broken_and_large_mails_come_as_they_are(mirror: Mirror, mail_server: Dovecot) -> None:
    odd = [
        b"",
        b"\r\n",
        b"no header at all",
        b"Subject: \xe4\xf6\xfc \xff\r\n\r\n8 bit \x80\xff",
        b"Subject: x\r\n\r\n" + b"a" * 100_000,
        b"Subject: large\r\n\r\n" + b"0123456789abcde\r\n" * (20 * 2**20 // 17),
        b"Subject: exact\r\n\r\n" + b"x" * (2 * BATCH_BYTES - 18),
        b"A001 OK FETCH completed\r\n* BYE\r\n)\r\n\r\n",
    ]
    mail_server.deliver("ada", odd)
    fetched, problems = mirror.update()
    assert problems == {}
    assert fetched == len(odd)
    assert sorted(mirror.contents.values()) == sorted(odd)


def test_a_mail_with_nul_bytes_is_fetched(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [b"Subject: nul\r\n\r\nbefore\0after\r\n", mail(1)])
    assert mirror.update() == (2, {})
    # The server may not send NUL in a literal (RFC 3501), and writes another byte.
    assert mirror.contents["INBOX/1.eml"].startswith(b"Subject: nul\r\n\r\nbefore")


def test_a_mail_that_is_too_large_is_a_problem_and_not_fetched(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail(1), mail(2, "x" * 10_000)])
    mirror.limits = FetchLimits(max_file_bytes=5_000)
    fetched, problems = mirror.update()
    assert fetched == 1
    assert "at most 5,000 bytes" in str(problems["INBOX/2.eml"])


def test_a_mail_that_disappears_meanwhile_is_left_out(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", map(mail, range(BATCH_MAILS + 10)))
    entries = mirror.entries()
    listed = [next(entries).path]
    with mail_server.client("ada") as client:
        client.select("INBOX")
        client.uid("STORE", "3", "+FLAGS", r"(\Deleted)")
        client.expunge()
    listed += [entry.path for entry in entries]
    assert len(listed) == BATCH_MAILS + 9
    assert "INBOX/3.eml" not in listed


# -- connections


@pytest.fixture
def tls_server(needs_dovecot: None) -> Iterator[Dovecot]:
    with Dovecot({"ada": "ada's secret"}, tls=True) as server:
        server.deliver("ada", [mail(1)])
        yield server


def test_certificates_are_checked(tls_server: Dovecot) -> None:
    mirror = Mirror(tls_server.location("ada", tls=True))
    with pytest.raises(UnusableSource, match="ca_file=FILE"):
        mirror.update()
    mirror.options = {"ca_file": str(tls_server.certificate)}
    assert mirror.update() == (1, {})
    # The certificate is for another name than this one.
    mirror.location = mirror.location.replace("localhost", "127.0.0.1")
    with pytest.raises(UnusableSource, match="not trusted"):
        mirror.update()
    assert tls_server.logins("ada") == (1, 0), "a password was sent to a server that is not trusted"


def test_starttls_is_used_where_it_is_offered(tls_server: Dovecot) -> None:
    location = tls_server.location("ada").replace("127.0.0.1", "localhost")
    with pytest.raises(UnusableSource, match="not trusted"):
        Mirror(location).update()
    assert Mirror(location, options={"ca_file": str(tls_server.certificate)}).update() == (1, {})
    assert ", TLS," in next(
        line for line in tls_server.log.read_text().splitlines() if "Login: user=<ada>" in line
    )


def test_a_port_without_tls_is_named_as_such(mail_server: Dovecot) -> None:
    location = mail_server.location("ada").replace("imap://", "imaps://")
    with pytest.raises(UnusableSource, match="use imap://"):
        Mirror(location).update()


def test_no_password_goes_over_a_network_without_tls(
    mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_server.deliver("ada", [mail(1)])
    monkeypatch.setattr("ipaddress.IPv4Address.is_loopback", False)
    mirror = Mirror(mail_server.location("ada"))
    with pytest.raises(UnusableSource, match="use imaps://"):
        mirror.update()
    assert mail_server.logins("ada") == (0, 0)
    mirror.options = {"plain": "yes"}
    assert mirror.update() == (1, {})


def test_private_addresses_need_a_permission(mirror: Mirror) -> None:
    mirror.guard = AddressGuard()
    with pytest.raises(PrivateAddress, match="ONWARD_FETCH_ALLOW_PRIVATE"):
        mirror.update()


def test_a_server_that_is_down_is_named(mirror: Mirror, mail_server: Dovecot) -> None:
    mail_server.kill()
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{mail_server.port} refuses connections"):
        mirror.update()


def test_a_server_that_dies_meanwhile_loses_nothing_of_what_was_fetched(
    mirror: Mirror, mail_server: Dovecot
) -> None:
    mails = [mail(number) for number in range(3 * BATCH_MAILS)]
    mail_server.deliver("ada", mails)
    entries = mirror.entries()
    for _ in range(BATCH_MAILS):
        entry = next(entries)
        target = io.BytesIO()
        entry.fetch(target)
        mirror.versions[entry.path], mirror.contents[entry.path] = entry.version, target.getvalue()
    mail_server.kill()
    with pytest.raises(ConnectionError):
        list(entries)
    mail_server.start()
    assert mirror.update() == (2 * BATCH_MAILS, {})
    assert sorted(mirror.contents.values()) == sorted(mails)


# -- logins


def test_a_wrong_password_is_sent_once(
    mirror: Mirror, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_server.deliver("ada", [mail(1)])
    variable = "ONWARD_IMAP_PASSWORD_ADA_127_0_0_1"
    monkeypatch.setenv(variable, "wrong")
    for _ in range(3):
        with pytest.raises(LoginRefused, match=r"refuses the login: \[AUTHENTICATIONFAILED\]") as refused:
            mirror.update()
        assert refused.value.dependency == "login:ada@127.0.0.1"
        assert variable in str(refused.value.remedy)
        assert "wrong" not in f"{refused.value} {refused.value.remedy}"
    assert mail_server.logins("ada") == (0, 1)
    monkeypatch.setenv(variable, "wrong again")
    for _ in range(2):
        with pytest.raises(LoginRefused):
            mirror.update()
    assert mail_server.logins("ada") == (0, 2)
    monkeypatch.setenv(variable, "ada's secret")
    assert mirror.update() == (1, {})
    assert mail_server.logins("ada") == (1, 2)


def test_a_password_may_have_any_characters(mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
    password = 'pä"ss\\wörd {5} 日本'
    mail_server.set_password("ada", password)
    mail_server.stop()
    mail_server.start()
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD_ADA_127_0_0_1", password)
    assert Mirror(mail_server.location("ada")).update() == (0, {})


@pytest.mark.parametrize(
    ("answer", "refused"),
    (
        ("[AUTHENTICATIONFAILED] Invalid credentials (Failure)", True),
        ("LOGIN failed.", True),
        ("[ALERT] Application-specific password required", True),
        ("[AUTHORIZATIONFAILED] try again later", True),
        ("Too many failed login attempts, try again later", True),
        ("your account is locked temporarily", True),
        ("[UNAVAILABLE] Temporary authentication failure.", False),
        ("[ALERT] Too many simultaneous connections. (Failure)", False),
        ("[LIMIT] LOGIN Rate limit hit", False),
        ("[INUSE] mailbox", False),
    ),
)
def test_what_servers_answer_to_a_login(answer: str, refused: bool) -> None:
    assert is_refusal(answer, closed=False) is refused


def test_what_a_server_repeats_of_a_login_is_not_shown() -> None:
    secret = 'pa"ss-word-of-ada'
    for sent in (secret, r"pa\"ss-word-of-ada", b64encode(f"\0ada\0{secret}".encode()).decode(), secret[:11]):
        assert without_login(f"BAD what is {sent} to me", "ada", secret) == "BAD what is ***"
    assert without_login("NO passwords are refused today", "ada", secret) == "NO passwords are refused today"


def test_a_closed_connection_is_a_refusal_only_if_the_server_says_so() -> None:
    assert is_refusal("Authentication failed, goodbye", closed=True)
    assert not is_refusal("socket error: EOF", closed=True)


def test_a_server_that_is_too_busy_for_a_login_is_no_refusal(needs_dovecot: None) -> None:
    with Dovecot({"ada": "ada's secret"}, connections=1) as server:
        mirror = Mirror(server.location("ada"))
        with (
            server.client("ada"),
            pytest.raises(ConnectionError, match=r"cannot log ada\S+ in now: .*connections"),
        ):
            mirror.update()
        assert mirror.update() == (0, {})


def test_a_token_is_refused_as_a_password_is(
    mirror: Mirror, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_IMAP_TOKEN_COMMAND_ADA_127_0_0_1", "echo a-token")
    for _ in range(2):
        with pytest.raises(LoginRefused) as refused:
            mirror.update()
        assert "a-token" not in str(refused.value)
    assert mail_server.log.read_text().count("method=XOAUTH2") == 1
