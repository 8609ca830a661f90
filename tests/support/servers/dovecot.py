"""A private Dovecot: an IMAP server with accounts, whose mails a test writes as files or by IMAP."""

from __future__ import annotations

import getpass
import imaplib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.private import HOST, PrivateServer, ServerError, accepts

_SETTINGS = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/server.log
protocols = imap
listen = {host}
ssl = {ssl}
{certificate}
disable_plaintext_auth = no
auth_mechanisms = plain login xoauth2
auth_verbose = yes
auth_failure_delay = 0
auth_worker_max_count = 1
mail_max_userip_connections = {connections}
mail_location = maildir:~/Maildir
mail_fsync = never
mail_uid = {uid}
mail_gid = {gid}
first_valid_uid = 1
default_internal_user = {internal}
default_login_user = {login}
default_vsz_limit = 0
namespace inbox {{
  inbox = yes
  separator = {separator}
  mailbox Trash {{
    special_use = \\Trash
  }}
  mailbox "Unwanted mail" {{
    special_use = \\Junk
  }}
}}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {folder}/users
}}
userdb {{
  driver = static
  args = home={folder}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{  # after a wrong password it would keep the next login waiting for seconds
    mode = 0
  }}
}}
"""
_CERTIFICATE = "ssl_cert = <{folder}/certificate.pem\nssl_key = <{folder}/key.pem"
_LOGIN = re.compile(r"imap-login: (?:Info: )?Login: user=<([^>]*)>")
_REFUSED = re.compile(r"auth: (?:Info: )?\S+\(([^,]+),[^)]*\): (?:Password mismatch|unknown user)")


class Dovecot(PrivateServer):
    """An IMAP server on loopback. Each account has its mails in the Maildir `folder/mail/USER/Maildir`.

    with Dovecot(accounts={"ada": "secret"}) as server:
        server.deliver("ada", [b"Subject: Hello\\r\\n\\r\\nHi"])
        ingest(server.location("ada"))
    """

    title = "Dovecot"

    def __init__(
        self,
        accounts: dict[str, str],
        *,
        separator: str = "/",
        tls: bool = False,
        connections: int = 100,
    ) -> None:
        program = find_program()
        if program is None:
            raise ServerError(why_missing())
        super().__init__(None, 0)
        self._program, self.accounts = program, dict(accounts)
        self._separator, self._tls, self._connections = separator, tls, connections
        self.tls_port = self._hold_port()
        self._delivered = 0

    @property
    def certificate(self) -> Path:
        """The certificate that a client has to trust; its name is "localhost"."""
        return self.folder / "certificate.pem"

    def location(self, user: str, folder: str = "", *, tls: bool = False) -> str:
        place = f"imaps://{user}@localhost:{self.tls_port}" if tls else f"imap://{user}@{HOST}:{self.port}"
        return f"{place}/{folder}"

    def set_password(self, user: str, password: str) -> None:
        self.accounts[user] = password
        self._write_users()

    def maildir(self, user: str, folder: str = "") -> Path:
        """Where the mails of a folder are; the name is as Dovecot writes it."""
        return self.folder / "mail" / user / "Maildir" / (f".{folder}" if folder else "")

    def deliver(self, user: str, mails: Iterable[bytes], folder: str = "") -> None:
        """Write mails into a folder, which exists then."""
        place = self.maildir(user, folder)
        for name in ("cur", "new", "tmp"):
            (place / name).mkdir(parents=True, exist_ok=True)
        for mail in mails:
            self._delivered += 1
            file = place / "cur" / f"{1_700_000_000 + self._delivered}.M{self._delivered}.test:2,"
            file.write_bytes(mail)
            os.chown(file, *_mail_owner())
        for path in (place.parent, *place.parents):
            if path == self.folder:
                break
            os.chown(path, *_mail_owner())
        for path in (place, *(place / name for name in ("cur", "new", "tmp"))):
            os.chown(path, *_mail_owner())

    def renumber(self, user: str, folder: str = "") -> None:
        """Give all mails of a folder other UIDs, with another UIDVALIDITY, as after a restore from a backup."""
        place = self.maildir(user, folder)
        for file in (*place.glob("dovecot-uidlist*"), *place.glob("dovecot.index*")):
            file.unlink()

    @contextmanager
    def client(self, user: str) -> Iterator[imaplib.IMAP4]:
        """A session of the account's owner, who creates folders, moves and deletes."""
        with imaplib.IMAP4(HOST, self.port) as client:
            client.login(user, self.accounts[user])
            yield client

    def logins(self, user: str) -> tuple[int, int]:
        """Return how many logins of an account were accepted, and how many refused."""
        text = self.log.read_text(errors="replace")
        return _LOGIN.findall(text).count(user), _REFUSED.findall(text).count(user)

    def _write_users(self) -> None:
        users = self.folder / "users"
        users.write_text("".join(f"{user}:{{PLAIN}}{password}\n" for user, password in self.accounts.items()))
        users.chmod(0o644)

    def _prepare(self) -> None:
        if self._tls and not self.certificate.exists():
            self._make_certificate()
        self._write_users()
        for user in self.accounts:
            self.deliver(user, [])
        uid, gid = _mail_owner()
        root = os.getuid() == 0
        text = _SETTINGS.format(
            folder=self.folder,
            host=HOST,
            port=self.port,
            tls_port=self.tls_port,
            ssl="yes" if self._tls else "no",
            connections=self._connections,
            certificate=_CERTIFICATE.format(folder=self.folder) if self._tls else "",
            separator=self._separator,
            uid=uid,
            gid=gid,
            internal="dovecot" if root else getpass.getuser(),
            login="dovenull" if root else getpass.getuser(),
        )
        (self.folder / "dovecot.conf").write_text(text)

    def _make_certificate(self) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        command += ["-keyout", str(self.folder / "key.pem"), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)

    def _spawn(self) -> subprocess.Popen[bytes]:
        return self._run_logged([self._program, "-F", "-c", self.folder / "dovecot.conf"], os.environ)

    def _answers(self) -> bool:
        return accepts(self.port)

    def _processes_to_kill(self, started: int) -> list[int]:
        return [-started]  # the group: Dovecot has many processes

    def _request_stop(self) -> None:
        self._running_process().send_signal(signal.SIGTERM)


def _mail_owner() -> tuple[int, int]:
    """Return the user and group that owns mails: Dovecot does not let root read mail."""
    return (65534, 65534) if os.getuid() == 0 else (os.getuid(), os.getgid())


def find_program() -> Path | None:
    found = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin:/usr/local/sbin")
    places = ("/usr/lib", "/usr/libexec", "/usr/local/libexec")
    imap = any(Path(place, "dovecot", "imap").exists() for place in places)
    return Path(found) if found and imap else None


def why_missing() -> str:
    """Why no Dovecot can be started here, and what to do about it; empty if one can."""
    if find_program() is not None:
        return ""
    return "Dovecot: found no `dovecot` with IMAP on this machine; install it: apt-get install dovecot-imapd"
