"""The credentials of accounts: from the environment, from a netrc file, or from a command that prints a token.

They are never part of a location, so they reach neither the store nor a message.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onward.pipeline.fetch.fetch_errors import UnusableSource

TOKEN_SECONDS = 60.0
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)|(\n)')


class UnusableLogin(UnusableSource):
    """No password or token of an account can be read. (Text after a name with "credentials" would be redacted.)"""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a server."""

    user: str
    host: str

    def __str__(self) -> str:
        return f"{self.user}@{self.host}"

    def setting(self, name: str) -> str:
        """Return the name of a setting for this account alone: `imap_password_ada_mail_example_org`."""
        return f"{name}_{re.sub(r'[^a-z0-9]+', '_', str(self).lower()).strip('_')}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A password, or a command that prints an access token."""

    place: str  # where a person changes it
    password: str = ""
    command: str = ""

    @property
    def identity(self) -> str:
        """The part that changes only when a person changes it: of a token, its command."""
        return self.command or self.password

    def token(self, account: Account) -> str:
        """Run the command; return the token that it prints."""
        try:
            words = shlex.split(self.command)
            environ = os.environ | {"ONWARD_ACCOUNT_USER": account.user, "ONWARD_ACCOUNT_HOST": account.host}
            run = subprocess.run(
                words,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TOKEN_SECONDS,
                check=False,
            )
        except (OSError, ValueError, IndexError) as error:
            reason = type(error).__name__ if isinstance(error, ValueError | IndexError) else error.strerror
            raise UnusableLogin(
                f"the command for a token of {account} cannot be run ({reason}): check {self.place}"
            ) from None
        except subprocess.TimeoutExpired:
            # Not raised from it: its message has the whole command.
            raise TimeoutError(
                f"the command in {self.place} printed no token within {TOKEN_SECONDS:g} s"
            ) from None
        token = run.stdout.decode("utf-8", "replace").strip()
        if run.returncode or not token or not token.isprintable():
            problem = f"ended with status {run.returncode}" if run.returncode else "printed no token"
            # It may need the network: so this may pass.
            raise ConnectionError(f"the command in {self.place} {problem}: run it yourself to see why")
        return token


def find_credentials(account: Account, protocol: str, environ: Mapping[str, str] | None = None) -> Credentials:
    """Return the credentials of an account for a protocol such as "imap"; raise `UnusableLogin` with the remedy.

    What is for this account alone comes first: so the password of another account is sent to no server that has
    a password of its own.
    """
    environ = os.environ if environ is None else environ
    password, command = f"{protocol}_password", f"{protocol}_token_command"
    own, own_command = account.setting(password), account.setting(command)
    if found := _from_environ(own_command, environ):
        return Credentials(_variable(own_command), command=found)
    if found := _from_environ(own, environ):
        return Credentials(_variable(own), password=found)
    file = Path(environ.get("ONWARD_NETRC") or "~/.netrc").expanduser()
    if found := _from_netrc(file, account, must_exist=bool(environ.get("ONWARD_NETRC"))):
        return Credentials(f"{file}", password=found)
    if found := _from_environ(command, environ):
        return Credentials(_variable(command), command=found)
    if found := _from_environ(password, environ):
        return Credentials(_variable(password), password=found)
    raise UnusableLogin(
        f"there is no password for {account}: set {_variable(own)}, or {_variable(password)} for all accounts, "
        f"or put 'machine {account.host} login {account.user} password …' into {file}"
    )


def _variable(setting: str) -> str:
    return f"ONWARD_{setting.upper()}"


def _from_environ(setting: str, environ: Mapping[str, str]) -> str:
    """Return a value from its variable, or from the file that it names with `_FILE`; "" if there is none."""
    variable = _variable(setting)
    value, path = environ.get(variable, ""), environ.get(f"{variable}_FILE", "")
    if not path:
        return value
    if value:
        raise UnusableLogin(f"{variable} and {variable}_FILE are both set: keep one")
    try:
        # Its name is not repeated: it may be the password, given by mistake.
        return Path(path).expanduser().read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UnusableLogin(f"the file of {variable}_FILE cannot be read ({reason}): check its path") from None


def _from_netrc(file: Path, account: Account, *, must_exist: bool) -> str:
    """Return the password of an account from a file in netrc form; "" if it has none."""
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            text = stream.read()
    except FileNotFoundError:
        if not must_exist:
            return ""
        raise UnusableLogin(f"ONWARD_NETRC names {file}, which does not exist: create it, or unset it") from None
    except OSError as error:
        raise UnusableLogin(f"{file} with passwords cannot be read: {error.strerror}") from None
    found = next((password for host, user, password in _logins(text) if (host, user) == _pair(account)), "")
    if found and os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnusableLogin(f"others can read the passwords in {file}: run chmod 600 {shlex.quote(str(file))}")
    return found


def _pair(account: Account) -> tuple[str, str]:
    return account.host.lower(), account.user


def _logins(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield host, user and password of each entry; `netrc` of the standard library has one entry a host only."""
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*macdef\b.*?(?:\n[ \t]*\n|\Z)", "\n", text, flags=re.MULTILINE | re.DOTALL)
    words = iter(
        re.sub(r"\\(.)", r"\1", quoted) if quoted or not plain else plain
        for quoted, plain, line_end in _TOKEN.findall(text)
        if not line_end
    )
    host = user = password = ""
    for word in words:
        if word in ("machine", "default"):
            if host:
                yield host, user, password
            host, user, password = (next(words, "").lower() if word == "machine" else ""), "", ""
        elif word == "login":
            user = next(words, "")
        elif word == "password":
            password = next(words, "")
        elif word == "account":
            next(words, "")
    if host:
        yield host, user, password
