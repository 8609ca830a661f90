"""A setting, a secret or an image of ours is wrong since a deploy."""

from __future__ import annotations

import importlib
import socket
import zoneinfo

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("bug or bad deploy")
def missing_package(scene: Scene) -> None:
    """The new image lacks a package that is imported inside the handler."""
    (bug,) = scene.causes

    @scene.service("rendering", Invoice)
    def render(invoice: Invoice, work: Work) -> None:
        if scene.version == "build-4412":
            with bug:
                importlib.import_module("weasyprint_that_is_not_installed")

    scene.deploy("build-4398")
    scene.traffic(20)
    scene.deploy("build-4412")
    scene.traffic(10)


@incident("bug or bad deploy")
def missing_binary(scene: Scene) -> None:
    """The slim image has no `pdftotext` any more."""
    (bug,) = scene.causes

    @scene.service("extracting", Upload)
    def extract(upload: Upload, work: Work) -> None:
        if scene.version == "2.4-slim":
            raise bug(FileNotFoundError(2, "No such file or directory", "pdftotext"))

    scene.deploy("2.3")
    scene.traffic(20, Upload)
    scene.deploy("2.4-slim")
    scene.traffic(14, Upload)


@incident("bug or bad deploy")
def wrong_host_deployed(scene: Scene) -> None:
    """The deploy set the staging host name in production, which does not exist there."""
    (mistake,) = scene.causes

    @scene.service("sending", Order, needs="crm")
    def send(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            raise mistake(socket.gaierror(-2, "Name or service not known (crm.staging.internal)"))

    scene.traffic(26, Order)
    scene.deploy("4.18.0")
    scene.traffic(15, Order)


@incident("bug or bad deploy")
def wrong_port_with_healthy_dependency(scene: Scene) -> None:
    """Since the deploy we call port 8081; the service listens on 8080 and its health call says yes."""
    (mistake,) = scene.causes
    scene.dependency("stock", health=lambda: True)

    @scene.service("reserving", Order, needs="stock")
    async def reserve(order: Order, work: Work) -> None:
        if scene.version == "8.2.0":
            raise mistake(
                lib.ClientConnectorError("stock.internal", 8081, ConnectionRefusedError(111, "Connection refused"))
            )

    scene.deploy("8.1.4")
    scene.traffic(20, Order)
    scene.deploy("8.2.0")
    scene.traffic(15, Order)


@incident("bug or bad deploy")
def environment_variable_missing(scene: Scene) -> None:
    """The new chart does not set LEDGER_TOKEN: every event ends in a KeyError."""
    (mistake,) = scene.causes

    @scene.service("exporting", None)
    def export(notice: Notice, work: Work) -> None:
        if scene.version == "chart-78":
            with mistake:
                {"HOME": "/"}["LEDGER_TOKEN"]

    scene.deploy("chart-77")
    scene.notices(20)
    scene.deploy("chart-78")
    scene.notices(15)


@incident("bug or bad deploy")
def wrong_key_name_deployed(scene: Scene) -> None:
    """The deploy mounts the secret of the test account: the provider rejects our signature, others are fine."""
    (mistake,) = scene.causes

    @scene.service("uploading", Upload, needs="object-store")
    def put(upload: Upload, work: Work) -> None:
        if scene.version == "r1203":
            text = "The request signature we calculated does not match the signature you provided."
            raise mistake(lib.BotoClientError("SignatureDoesNotMatch", text, "PutObject", 403))

    scene.deploy("r1202")
    scene.traffic(20, Upload)
    scene.deploy("r1203")
    scene.traffic(15, Upload)


@incident("bug or bad deploy")
def model_renamed_in_our_settings(scene: Scene) -> None:
    """The deploy asks for a model with a typo in its name; the provider knows none of that name."""
    (mistake,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if scene.version == "1.8.0":
            raise mistake(
                lib.NotFoundError(
                    404,
                    "The model `large-2-mni` does not exist or you do not have access to it.",
                    "invalid_request_error",
                    "model_not_found",
                )
            )

    scene.deploy("1.7.3")
    scene.traffic(18, Page)
    scene.deploy("1.8.0")
    scene.traffic(12, Page)


@incident("bug or bad deploy")
def time_zone_data_missing(scene: Scene) -> None:
    """The new base image has no time zone data."""
    (bug,) = scene.causes

    @scene.service("scheduling", Order)
    def schedule(order: Order, work: Work) -> None:
        if scene.version == "5.3-alpine":
            with bug:
                zoneinfo.ZoneInfo("Europe/Berlin-without-data")

    scene.deploy("5.2")
    scene.traffic(18, Order)
    scene.deploy("5.3-alpine")
    scene.traffic(12, Order)
