"""Write mails as an mbox."""

from __future__ import annotations

import re
import time
from typing import BinaryIO

_FROM = re.compile(rb">*From ")
_LINE_BYTES = 1 << 16


def write_mail(mail: BinaryIO, target: BinaryIO, seconds: int) -> bool:
    """Write one mail in mboxrd format, with the time of its delivery; return False if it is empty."""
    line = mail.readline(_LINE_BYTES)
    if not line:
        return False
    delivered = time.asctime(time.gmtime(min(max(seconds, 0), 0xFFFFFFFF)))
    target.write(f"From MAILER-DAEMON {delivered}\n".encode())
    begins = True
    while line:
        # A line longer than `_LINE_BYTES` is read in several parts; only the first can be a "From " line.
        if begins and _FROM.match(line):
            target.write(b">")
        target.write(line)
        begins = line.endswith(b"\n")
        line = mail.readline(_LINE_BYTES)
    target.write(b"\n" if begins else b"\n\n")
    return True
