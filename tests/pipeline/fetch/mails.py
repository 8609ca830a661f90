"""Mail to take in tests."""

from __future__ import annotations

MAIL = b"""From: Ada <ada@example.org>
To: list@example.org
Date: Mon, 2 Mar 2026 10:00:00 +0000
Message-ID: <1@example.org>
Subject: Hello

Dear all,
From here on it works.
"""
MBOX = b"From ada@example.org Mon Mar  2 10:00:00 2026\n" + MAIL.replace(b"\nFrom here", b"\n>From here") + b"\n"
