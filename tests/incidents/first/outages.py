"""Something outside of the program is down, or cannot be reached."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl

import requests

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Mail, Notice, Order, Page
from tests.incidents.staging import Scene, incident


@incident("dependency", groups=2)
def mail_relay_restarted_badly(scene: Scene) -> None:
    """The mail relay came up with a broken configuration: connections are refused, later they time out."""
    (outage,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if outage.on and scene.minute < 45:
            raise outage(ConnectionRefusedError(111, "Connection refused"))
        if outage.on:
            raise outage(TimeoutError(110, "Connection timed out"))

    scene.traffic(30, Mail, every=60)
    outage.on = True
    scene.traffic(30, Mail, every=60)


@incident("dependency")
def website_unreachable_with_health_call(scene: Scene) -> None:
    """The partner's website does not resolve any more; the health call notices it."""
    (outage,) = scene.causes
    scene.dependency("partner", health=lambda: not outage.on)

    @scene.service("fetching", Page, needs="partner")
    async def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.requests_refused(
                    f"https://www.partner.example/p/{page.id}", "[Errno -2] Name or service not known"
                )
            )

    scene.traffic(18, Page)
    outage.on = True
    scene.traffic(8, Page)
    scene.run(hours=2)


@incident("dependency")
def wrapped_without_needs(scene: Scene) -> None:
    """The label printer's server refuses connections; a generic error of ours is raised from that."""
    (outage,) = scene.causes

    @scene.service("labelling", Order)
    def label(order: Order, work: Work) -> None:
        if outage.on:
            try:
                raise ConnectionRefusedError(111, "Connection refused")
            except OSError as error:
                raise outage(RuntimeError(f"label for order {order.id} was not printed")) from error

    scene.traffic(32, Order)
    outage.on = True
    scene.traffic(14, Order)


@incident("dependency")
def exception_group_of_lookups(scene: Scene) -> None:
    """Three lookups run side by side; the address service is gone, and a group of errors is raised."""
    (outage,) = scene.causes

    @scene.service("enriching", Order, needs=("addresses", "scores"))
    async def enrich(order: Order, work: Work) -> None:
        if outage.on:
            refused = OSError(111, "Connect call failed ('10.0.3.9', 8080)")
            errors = [lib.ClientConnectorError("addresses.internal", 8080, refused) for _ in range(2)]
            raise outage(ExceptionGroup("unhandled errors in a TaskGroup", errors))

    scene.traffic(18, Order)
    outage.on = True
    scene.traffic(10, Order)


@incident("dependency")
def flapping_broker(scene: Scene) -> None:
    """The broker's network card flaps: it is gone for two minutes of every five, all morning."""
    (outage,) = scene.causes

    @scene.service("announcing", Order, needs="broker")
    def announce(order: Order, work: Work) -> None:
        if outage.on and scene.minute % 5 < 2:
            raise outage(
                lib.AMQPConnectionError(
                    "Stream connection lost: ConnectionResetError(104, 'Connection reset by peer')"
                )
            )

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(40, Order)


@incident("dependency", groups=3)
def flapping_without_needs(scene: Scene) -> None:
    """A VPN tunnel drops every few minutes: resets, timeouts and disconnects, for whoever is calling just then."""
    (outage,) = scene.causes

    @scene.service("syncing", Order)
    async def sync(order: Order, work: Work) -> None:
        if outage.on and scene.minute % 7 < 4:
            step = int(scene.minute) % 3
            if step == 0:
                raise outage(ConnectionResetError(104, "Connection reset by peer"))
            if step == 1:
                raise outage(lib.ServerDisconnectedError("Server disconnected"))
            raise outage(TimeoutError(110, "Connect call failed ('172.16.9.2', 443)"))

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(26, Order)


@incident("dependency")
def dns_of_the_whole_house(scene: Scene) -> None:
    """The resolver of the house is down: no name resolves."""
    (outage,) = scene.causes

    @scene.service("checking", Page, needs="links")
    def check(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))

    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(20, Page)


@incident("dependency", groups=2)
def dns_in_two_services(scene: Scene) -> None:
    """The same resolver trouble in two services, one of them without needs."""
    (outage,) = scene.causes

    @scene.service("fetching", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))

    @scene.service("posting", Order)
    async def post(order: Order, work: Work) -> None:
        if outage.on:
            inner = socket.gaierror(-3, "Temporary failure in name resolution")
            raise outage(lib.ClientConnectorError("hooks.partner.example", 443, inner))

    for _ in range(10):
        scene.traffic(1, Page)
        scene.traffic(1, Order)
    outage.on = True
    for _ in range(8):
        scene.traffic(1, Page)
        scene.traffic(1, Order)


@incident("dependency")
def outage_that_healed(scene: Scene) -> None:
    """The mailbox server was away for twenty minutes; all is done since; read in the morning."""
    (outage,) = scene.causes

    @scene.service("filing", Mail, needs="imap")
    def file(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(ConnectionRefusedError(111, "Connection refused"))

    scene.traffic(20, Mail)
    outage.on = True
    scene.traffic(20, Mail)
    outage.on = False
    scene.traffic(26, Mail)
    scene.run(hours=8)


@incident("dependency")
def outage_that_came_back(scene: Scene) -> None:
    """The courier's API was away yesterday, and is away again."""
    (outage,) = scene.causes

    @scene.service("shipping", Order, needs="courier")
    async def ship(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.ConnectTimeout("timed out"))

    scene.traffic(15, Order)
    outage.on = True
    scene.traffic(10, Order)
    outage.on = False
    scene.traffic(15, Order)
    scene.run(hours=20)
    scene.traffic(5, Order)
    outage.on = True
    scene.traffic(10, Order)


@incident("dependency")
def listener_without_documents(scene: Scene) -> None:
    """The chat server rejects the connection of the notifier, which finishes no documents."""
    (outage,) = scene.causes

    @scene.service("notifying", None, needs="chat")
    async def notify(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.ClientConnectorError("chat.internal", 443, ConnectionRefusedError(111, "Connection refused"))
            )

    scene.notices(18)
    outage.on = True
    scene.notices(10)
    scene.run(30)


@incident("dependency")
def smtp_server_says_service_not_available(scene: Scene) -> None:
    """The relay is shutting down: 421 at once after the greeting."""
    (outage,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(
                smtplib.SMTPConnectError(
                    421, b"4.3.2 mx2.example.org Service not available, closing transmission channel"
                )
            )

    scene.traffic(18, Mail)
    outage.on = True
    scene.traffic(12, Mail)


@incident("dependency")
def tls_handshake_fails(scene: Scene) -> None:
    """The partner's new load balancer resets TLS handshakes."""
    (outage,) = scene.causes

    @scene.service("posting", Order)
    def post(order: Order, work: Work) -> None:
        if outage.on:
            try:
                raise ssl.SSLEOFError(
                    8, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c:1006)"
                )
            except ssl.SSLError as error:
                raise outage(
                    requests.exceptions.SSLError(
                        f"HTTPSConnectionPool(host='edi.partner.example', port=443): {error}"
                    )
                ) from error

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def cancelled_by_a_dead_server(scene: Scene) -> None:
    """The server accepts connections and never answers: our own deadline ends each call."""
    (outage,) = scene.causes

    @scene.service("rating", Order, needs="rates", time_limit=60)
    async def rate(order: Order, work: Work) -> None:
        if outage.on:
            try:
                raise asyncio.CancelledError
            except asyncio.CancelledError as error:
                raise outage(TimeoutError("no rates from rates.internal within 30 s")) from error

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(10, Order)
