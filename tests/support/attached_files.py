"""Files that tests attach to mails, and mails with attachments."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP

PDF, DOCX = "application/pdf", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def pdf(pages: list[str], info: str = "", trailer: str = "", *, packed: bool = False) -> bytes:
    """Write a PDF by hand: a catalog, its pages, a font, and each page's drawing of a line of text."""
    filter = " /Filter /FlateDecode" if packed else ""
    count = len(pages)
    fonts = "/Resources << /Font << /F1 3 0 R >> >>"
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawing = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else "0 0 100 100 re f"
        drawing = zlib.compress(drawing.encode()).decode("latin-1") if packed else drawing
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R {fonts} >>",
            f"<< /Length {len(drawing)}{filter} >>\nstream\n{drawing}\nendstream",
        ]
    objects.append(f"<< {info} >>")
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    out += "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R {trailer} >>\n"
    return (out + f"startxref\n{start}\n%%EOF\n").encode("latin-1")


def grey_png(width: int, height: int, grey: bytes) -> bytes:
    """Write a PNG in shades of grey, a byte for each point."""

    def part(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    rows = b"".join(b"\0" + grey[at : at + width] for at in range(0, width * height, width))
    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def scanned_pdf(
    width: int, height: int, grey: bytes, text: str = "", *, stamp: str = "", strips: int = 1, scale: float = 1.0
) -> bytes:
    """Write a PDF of one page that is only a picture, in shades of grey; and one with a text, if there is one.

    A stamp is text on the picture; the picture may be stored in strips, and cover only a part of its page.
    """
    rows = height // strips
    place = b"q %f 0 0 %f 0 %f cm /I%d Do Q\n"
    drawing = b"".join(
        place % (width * scale, rows * scale, (strips - 1 - number) * rows * scale, number)
        for number in range(strips)
    )
    drawing += f"BT /F1 12 Tf 10 10 Td ({stamp}) Tj ET".encode() if stamp else b""
    cover = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
    fonts = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    pictures = b" ".join(b"/I%d %d 0 R" % (number, 7 + number) for number in range(strips))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [5 0 R 3 0 R] /Count 2 >>"
        if text
        else b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R "
        b"/Resources << /XObject << %s >> %s >> >>" % (width, height, pictures, fonts),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 6 0 R /Resources << %s >> >>" % fonts,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cover), cover),
    ]
    for number in range(strips):
        strip = grey[number * rows * width : (number + 1) * rows * width]
        objects.append(
            b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
            b"/Length %d >>\nstream\n%s\nendstream" % (width, rows, len(strip), strip)
        )
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start, count = len(out), len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, start)


def docx(*paragraphs: str) -> bytes:
    """Write a Word file by hand: the parts that every reader looks for."""
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    packages = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packages}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{DOCX}.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{packages}/relationships">'
        f'<Relationship Id="r1" Type="{office}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as package:
        for name, text in parts.items():
            package.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return file.getvalue()


def mail_with(
    id: str,
    *files: tuple[str, str, bytes],
    body: str = "It is attached.",
    subject: str = "The report",
    references: Sequence[str] = (),
    forwarded: EmailMessage | None = None,
) -> EmailMessage:
    """Return a mail with these files: name, content type, content."""
    mail = EmailMessage(SMTP.clone(linesep="\n"))
    mail["From"], mail["To"], mail["Subject"] = "Ada <ada@example.org>", "list@example.org", subject
    mail["Date"], mail["Message-ID"] = "Mon, 2 Mar 2026 10:00:00 +0000", f"<{id}@example.org>"
    if references:
        mail["References"] = " ".join(f"<{one}@example.org>" for one in references)
    mail.set_content(body)
    for name, content_type, content in files:
        main, _, sub = content_type.partition("/")
        mail.add_attachment(content, main, sub, filename=name)
    if forwarded is not None:
        mail.add_attachment(forwarded)
    return mail
