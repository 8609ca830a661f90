"""Passwords of accounts: where they are found, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from onward.pipeline.source_kinds.credentials import Account, UnusableLogin, find_credentials
from onward.pipeline.source_kinds.refused_logins import LoginRefused, RefusedLogins, is_marked, mark_of
from onward.retry.redact import redact

ADA = Account("ada@example.org", "mail.example.org")
BOB = Account("bob", "mail.example.org")
OWN = "ONWARD_IMAP_PASSWORD_ADA_EXAMPLE_ORG_MAIL_EXAMPLE_ORG"


@pytest.fixture
def netrc(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Writes a netrc file; returns the environment that names it."""

    def write(text: str, mode: int = 0o600) -> dict[str, str]:
        file = tmp_path / "netrc"
        file.write_text(text)
        file.chmod(mode)
        return {"ONWARD_NETRC": str(file)}

    return write


def password(account: Account, environ: dict[str, str]) -> str:
    return find_credentials(account, "imap", environ).password


NETRC = """
# machine mail.example.org login ada@example.org password commented
machine other.example.org login ada@example.org password other
machine mail.example.org
    login bob
    password "b o\\"b"
macdef init
    machine mail.example.org login ada@example.org password macro

machine mail.example.org login ada@example.org account x password ada#1
default login nobody password nothing
"""


def test_netrc_has_several_accounts_of_one_host(netrc: Callable[[str], dict[str, str]]) -> None:
    environ = netrc(NETRC)
    assert password(ADA, environ) == "ada#1"
    assert password(BOB, environ) == 'b o"b'


def test_what_is_for_one_account_comes_before_what_is_for_all(netrc: Callable[[str], dict[str, str]]) -> None:
    environ = netrc(NETRC) | {OWN: "own", "ONWARD_IMAP_PASSWORD": "all"}
    assert password(ADA, environ) == "own"
    assert password(BOB, environ) == 'b o"b'
    assert password(Account("eve", "mail.example.org"), environ) == "all"


def test_a_password_can_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    environ = {"ONWARD_NETRC": str(tmp_path / "netrc"), f"{OWN}_FILE": str(tmp_path / "secret")}
    assert password(ADA, environ) == "from a file"
    with pytest.raises(UnusableLogin, match="keep one"):
        password(ADA, environ | {OWN: "both"})
    with pytest.raises(UnusableLogin, match="cannot be read") as failed:
        password(ADA, {f"{OWN}_FILE": "hunter2"})
    assert "hunter2" not in str(failed.value)


def test_a_netrc_that_others_can_read_is_refused(netrc: Callable[..., dict[str, str]]) -> None:
    with pytest.raises(UnusableLogin, match="chmod 600") as refused:
        password(BOB, netrc(NETRC, 0o640))
    assert 'b o"b' not in str(refused.value)
    # It says nothing of this account, so it is not in the way.
    environ = netrc(NETRC, 0o640) | {"ONWARD_IMAP_PASSWORD": "all"}
    assert password(Account("eve", "mail.example.org"), environ) == "all"


def test_without_a_password_the_remedy_names_the_variable_and_the_file(
    netrc: Callable[[str], dict[str, str]],
) -> None:
    with pytest.raises(UnusableLogin, match=OWN) as missing:
        password(ADA, netrc(""))
    shown = f"{type(missing.value).__name__}: {missing.value}"
    assert redact(shown) == shown, "the name of the error is not taken for that of a secret"
    with pytest.raises(UnusableLogin, match=r"nowhere/netrc, which does not exist"):
        password(ADA, {"ONWARD_NETRC": "/nowhere/netrc"})


def test_a_token_is_printed_by_a_command(tmp_path: Path) -> None:
    program = tmp_path / "token.py"
    program.write_text("import os; print('token-of', os.environ['ONWARD_ACCOUNT_USER'])")
    environ = {"ONWARD_IMAP_TOKEN_COMMAND": f"{sys.executable} {program}"}
    found = find_credentials(BOB, "imap", environ)
    assert found.token(BOB) == "token-of bob"
    assert found.identity == environ["ONWARD_IMAP_TOKEN_COMMAND"]


@pytest.mark.parametrize(
    ("command", "problem"),
    (
        ("false", "status 1"),
        ("true", "printed no token"),
        ("/nowhere/command secret", "cannot be run"),
        ("'", "run"),
    ),
)
def test_a_command_without_a_token_is_named_by_its_variable(command: str, problem: str) -> None:
    found = find_credentials(BOB, "imap", {"ONWARD_IMAP_TOKEN_COMMAND": command})
    with pytest.raises((UnusableLogin, ConnectionError), match=problem) as failed:
        found.token(BOB)
    assert "ONWARD_IMAP_TOKEN_COMMAND" in str(failed.value)
    assert "secret" not in str(failed.value)


def test_a_refused_password_is_recognised_and_another_one_is_tried() -> None:
    logins = RefusedLogins()
    logins.add(LoginRefused("imap:ada@host", "refused", "correct it"), "wrong")
    with pytest.raises(LoginRefused, match="refused"):
        logins.check("imap:ada@host", "wrong")
    logins.check("imap:ada@host", "right")
    logins.check("imap:bob@host", "wrong")
    logins.remove("imap:ada@host")
    logins.check("imap:ada@host", "wrong")


def test_a_mark_shows_neither_the_password_nor_that_two_are_the_same() -> None:
    first, second = mark_of("hunter2"), mark_of("hunter2")
    assert first != second
    assert is_marked(first, "hunter2")
    assert is_marked(second, "hunter2")
    assert not all(is_marked(first, f"hunter{n}") for n in range(3, 6))
    assert len(first.partition(":")[2]) * 4 == 16  # bits: too few to confirm a guess
