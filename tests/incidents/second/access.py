"""Further things outside that are broken or refuse us: files, keys, reports without documents."""

from __future__ import annotations

import errno

import psycopg

from onward import Unavailable, Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Mail, Notice, Order, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


@incident("dependency")
def scan_share_stale(scene: Scene) -> None:
    """The file server of the scans was replaced: the mounted share has only stale handles."""
    (outage,) = scene.causes

    @scene.service("scan-intake", Upload)
    def take(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(errno.ESTALE, "Stale file handle", f"/mnt/scans/{upload.id}"))

    scene.traffic(35, Upload, kind="tiff")
    outage.on = True
    scene.traffic(20, Upload, kind="tiff")


@incident("dependency")
def geocoding_billing_disabled(scene: Scene) -> None:
    """The project's billing was disabled: the geocoder denies every request, with status 200."""
    (refusal,) = scene.causes

    @scene.service("geocoding", Order, needs="geocoder")
    def locate(order: Order, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.GoogleMapsApiError(
                    "REQUEST_DENIED (You must enable Billing on the Google Cloud Project at "
                    "https://console.cloud.google.com/project/_/billing/enable)"
                )
            )

    scene.traffic(90, Order, every=20)
    refusal.on = True
    scene.traffic(30, Order, every=20)
    scene.run(hours=3)


@incident("dependency")
def warehouse_report_host_down(scene: Scene) -> None:
    """The data warehouse is down; the nightly reports name no document and say that it is unavailable."""
    (outage,) = scene.causes

    @scene.service("warehouse-reports", None, needs="warehouse")
    def report(notice: Notice, work: Work) -> None:
        if outage.on:
            try:
                raise psycopg.OperationalError(
                    'connection failed: connection to server at "10.6.1.2", port 5432 failed: '
                    "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
                )
            except psycopg.OperationalError as error:
                raise outage(Unavailable("warehouse")) from error

    scene.notices(20)
    outage.on = True
    scene.notices(6)
    scene.run(40)


@incident("dependency")
def model_access_withdrawn(scene: Scene) -> None:
    """The provider withdrew our organization's access to the model that summarizes rulings."""
    (refusal,) = scene.causes

    @scene.service("ruling-summaries", Upload, needs="language-model")
    async def summarize(upload: Upload, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.anthropic_error(
                    more.AnthropicPermissionError,
                    403,
                    "permission_error",
                    "This organization has been disabled.",
                )
            )

    scene.traffic(28, Upload, kind="pdf")
    refusal.on = True
    scene.traffic(13, Upload, kind="pdf")
    scene.run(hours=48)


@incident("dependency", groups=2)
def key_vault_and_its_fallback_gone(scene: Scene) -> None:
    """Signing asks two key vaults side by side; both are in the data centre that lost its power."""
    (outage,) = scene.causes

    @scene.service("signing", Mail, needs=("vault-a", "vault-b"))
    async def sign(mail: Mail, work: Work) -> None:
        if outage.on:
            errors = [
                lib.ClientConnectorError(f"vault-{name}.internal", 8200, OSError(113, "No route to host"))
                for name in "ab"
            ]
            raise outage(ExceptionGroup("unhandled errors in a TaskGroup (2 sub-exceptions)", errors))

    scene.traffic(24, Mail)
    outage.on = True
    scene.traffic(3, Mail)
