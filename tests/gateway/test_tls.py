"""TLS: `amqps://`, with the certificates that the URL names."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from onward.gateway import BrokerError
from tests.support.gateway_broker import Opener, RecordingGateway, publish
from tests.support.servers import RabbitServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine, that it signed itself, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout both.pem -out cert.pem"
    )
    subprocess.run(
        command.split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    with (folder / "both.pem").open("a") as both:
        both.write((folder / "cert.pem").read_text())
    return folder / "both.pem"


@pytest.fixture
def tls_port(certificate: Path, rabbit_server: RabbitServer) -> Iterator[int]:
    """A port that speaks TLS and passes everything on to the broker."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    loop = asyncio.new_event_loop()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", rabbit_server.port)
        try:
            await asyncio.gather(pass_on(reader, broker_writer), pass_on(broker_reader, writer))
        except asyncio.CancelledError:
            for one in (writer, broker_writer):
                one.transport.abort()
            raise

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(connect, "127.0.0.1", ssl=context)

    server = loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield server.sockets[0].getsockname()[1]

    async def end() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, pending = await asyncio.wait(others, timeout=5)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(end(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def tls_url(rabbit_url: str, rabbit_server: RabbitServer, tls_port: int) -> str:
    return rabbit_url.replace("amqp://", "amqps://").replace(f":{rabbit_server.port}/", f":{tls_port}/")


@pytest.mark.parametrize("how", ("cafile={certificate}", "no_verify_ssl=1"))
def test_a_connection_with_tls(opened: Opener, tls_url: str, rabbit_url: str, certificate: Path, how: str) -> None:
    gateway = opened(f"{tls_url}?{how.format(certificate=certificate)}")
    publish(rabbit_url, b"hello")
    gateway.wait_for(b"hello")
    gateway.stop()


def test_a_certificate_that_nobody_vouches_for(tls_url: str) -> None:
    with pytest.raises(BrokerError, match=r"certificate of RabbitMQ at .* is not trusted: self.signed"):
        RecordingGateway(tls_url).start()


def test_a_file_that_is_not_there(tls_url: str, tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="cannot be read"):
        RecordingGateway(f"{tls_url}?cafile={tmp_path / 'missing.pem'}").start()
