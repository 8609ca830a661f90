"""Starting: an error names its remedy, and never the password."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Callable

import pytest
from yarl import URL

from onward.gateway import BrokerError, BrokerUnavailable
from onward.gateway.connection import explain
from onward.gateway.gateway import queue_arguments
from onward.gateway.inbox import INBOX
from onward.gateway.outbox import EXCHANGE
from tests.support.gateway_broker import (
    SECONDS,
    Opener,
    RecordingGateway,
    by_hand,
    eventually,
    gateway_threads,
    publish,
)
from tests.support.servers import Proxy, RabbitServer

PASSWORD = "s3cret-pass"


def complaint(url: str, kind: type[BrokerError] = BrokerError) -> str:
    """Return the error of a check; it never shows the password.

    A start raises it, too, and leaves nothing running, unless the broker is only unavailable.
    """
    with pytest.raises(kind) as caught:
        RecordingGateway(url).check()
    assert type(caught.value) is kind
    text = str(caught.value)
    assert PASSWORD not in text
    gateway = RecordingGateway(url)
    if kind is BrokerUnavailable:
        gateway.start()
        assert eventually(lambda: gateway.trouble, "it has tried to connect") == text
        gateway.stop()
    else:
        with pytest.raises(BrokerError) as refused:
            gateway.start()
        assert str(refused.value) == text
    assert gateway_threads() == []
    return text


def test_starting_twice_is_a_mistake_and_starting_again_is_not(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url)
    with pytest.raises(BrokerError, match="started already"):
        gateway.start()
    gateway.stop()
    gateway.start()
    publish(rabbit_url, b"hello")
    gateway.wait_for(b"hello")


def test_a_gateway_starts_again_although_its_stop_has_not_ended(
    opened: Opener, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.gateway.gateway.RENEW_SECONDS", 0.1)
    gateway = opened(rabbit_url)
    eventually(lambda: gateway.has_been_empty, "connected")
    monkeypatch.setattr("onward.gateway.gateway.STOP_SECONDS", 0.0)
    releasing, release = threading.Event(), gateway.store.release_role

    def release_slowly(role: str, holder: str) -> None:
        assert releasing.wait(SECONDS)
        release(role, holder)

    monkeypatch.setattr(gateway.store, "release_role", release_slowly)
    (before,) = gateway_threads()
    gateway.stop()
    gateway.start()
    releasing.set()
    before.join(SECONDS)
    publish(rabbit_url, b"hello")
    gateway.wait_for(b"hello")
    eventually(lambda: gateway.has_been_empty, "it goes on")
    monkeypatch.setattr("onward.gateway.gateway.STOP_SECONDS", 5.0)


def test_a_url_of_something_else() -> None:
    assert "amqp://user:password@host:5672/vhost" in complaint(f"redis://u:{PASSWORD}@localhost/")
    assert "amqp://user:password@host:5672/vhost" in complaint("localhost:5672")
    assert "%2F" in complaint(f"amqp://u:{PASSWORD}/x@localhost:5672/")
    assert "is not the URL of a RabbitMQ broker" in complaint(f"amqp://u:{PASSWORD}@xn--a/")  # no valid Punycode


def test_an_unknown_host() -> None:
    said = complaint(f"amqp://u:{PASSWORD}@no-such-host.invalid/", BrokerUnavailable)
    assert "no host 'no-such-host.invalid'" in said


def test_a_port_where_nothing_listens(network: Callable[[int], Proxy]) -> None:
    proxy = network(1)
    proxy.refuse()
    said = complaint(f"amqp://u:{PASSWORD}@127.0.0.1:{proxy.port}/", BrokerUnavailable)
    assert f"nothing listens at 127.0.0.1:{proxy.port}" in said


def test_a_network_that_stays_silent(
    monkeypatch: pytest.MonkeyPatch, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    monkeypatch.setattr("onward.gateway.gateway.OPEN_SECONDS", 0.2)
    proxy = network(rabbit_server.port)
    proxy.cut()
    said = complaint(f"amqp://u:{PASSWORD}@127.0.0.1:{proxy.port}/", BrokerUnavailable)
    assert "did not respond in time" in said


def test_a_wrong_password(rabbit_server: RabbitServer) -> None:
    said = complaint(rabbit_server.url(user="guest", password=PASSWORD))
    assert "refused to let user 'guest' in" in said
    assert "rabbitmqctl" in said


def test_a_virtual_host_that_does_not_exist(rabbit_server: RabbitServer) -> None:
    said = complaint(rabbit_server.url("no such"))
    assert "no virtual host 'no such'" in said
    assert "rabbitmqctl add_vhost" in said


def test_a_virtual_host_one_may_not_enter_or_use(rabbit_server: RabbitServer, rabbit_url: str) -> None:
    vhost = URL(rabbit_url).path[1:]
    rabbit_server.evaluate(f'rabbit_auth_backend_internal:add_user(<<"bob">>, <<"{PASSWORD}">>, <<"guest">>)')
    try:
        url = rabbit_server.url(vhost, user="bob", password=PASSWORD)
        assert f"refused user 'bob' the virtual host '{vhost}'" in complaint(url)
        rabbit_server.evaluate(
            f'rabbit_auth_backend_internal:set_permissions(<<"bob">>, <<"{vhost}">>, '
            '<<"^$">>, <<"^$">>, <<"^$">>, <<"guest">>)'
        )
        said = complaint(url)
        assert "does not allow user 'bob'" in said
        assert f"rabbitmqctl set_permissions -p {vhost} bob" in said
    finally:
        rabbit_server.evaluate('rabbit_auth_backend_internal:delete_user(<<"bob">>, <<"guest">>)')


def test_a_queue_that_is_something_else(rabbit_url: str) -> None:
    by_hand(rabbit_url, lambda channel: channel.queue_declare(INBOX, durable=True))
    said = complaint(rabbit_url)
    assert f"queue '{INBOX}'" in said
    assert "a durable quorum queue" in said
    assert f"delete_queue {INBOX}" in said


def test_an_exchange_that_is_something_else(rabbit_url: str) -> None:
    by_hand(rabbit_url, lambda channel: channel.exchange_declare(EXCHANGE, exchange_type="fanout", durable=True))
    said = complaint(rabbit_url)
    assert f"exchange '{EXCHANGE}'" in said
    assert "a durable topic exchange" in said
    assert f"delete exchange name={EXCHANGE}" in said


def test_a_queue_from_before_an_upgrade_is_used_as_it_is(
    opened: Opener, rabbit_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The queue is made as an old broker has it; then this broker is taken for a new one.
    opened(rabbit_url).stop()
    monkeypatch.setattr("onward.gateway.connection.BrokerConnection.version", (4, 0, 1))
    with caplog.at_level(logging.WARNING, "onward.gateway"):
        gateway = opened(rabbit_url)
    assert f"queue '{INBOX}' was made with a delivery limit" in caplog.text
    publish(rabbit_url, b"hello")
    gateway.wait_for(b"hello")


def test_queues_have_no_delivery_limit() -> None:
    assert queue_arguments((3, 13, 7)) == {"x-queue-type": "quorum"}
    assert queue_arguments((4, 0, 0)) == {"x-queue-type": "quorum", "x-delivery-limit": -1}
    assert queue_arguments(()) == {"x-queue-type": "quorum"}


def test_a_broker_without_quorum_queues(rabbit_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.gateway.connection.BrokerConnection.version", (3, 7, 28))
    said = complaint(rabbit_url)
    assert "is version 3.7.28, which has no quorum queues" in said
    assert "3.8 or later" in said


def test_a_port_without_tls(rabbit_server: RabbitServer) -> None:
    assert "no TLS connection" in complaint(rabbit_server.url().replace("amqp://", "amqps://"))


def test_a_server_that_speaks_something_else() -> None:
    class WebServer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.request.recv(1024)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), WebServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = complaint(f"amqp://u:{PASSWORD}@127.0.0.1:{server.server_address[1]}/")
        server.shutdown()
    assert "does not speak AMQP" in said
    assert "15672 is its management page" in said


def test_an_error_nobody_thought_of_is_told_without_secrets() -> None:
    error = explain(RuntimeError(f"amqp://u:{PASSWORD}@h/ broke"), URL(f"amqp://u:{PASSWORD}@h:5672/"))
    assert type(error) is BrokerUnavailable
    assert PASSWORD not in str(error)
    assert explain(error, URL("amqp://h/")) is error
