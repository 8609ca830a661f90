"""Incidents in which even an expert cannot tell the cause from what is stored."""

from __future__ import annotations

from onward import Work
from tests.incidents.documents import Invoice, Order, Page
from tests.incidents.staging import Scene, incident


@incident("unclear")
def first_document_fails_for_no_reason_given(scene: Scene) -> None:
    """The first and only document of a new service fails with an error that says nothing."""
    (mystery,) = scene.causes

    @scene.service("reading", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        raise mystery(RuntimeError("failed"))

    scene.traffic(1)


@incident("unclear")
def two_documents_and_a_value_error(scene: Scene) -> None:
    """The first two documents of a new service fail with a bare ValueError; there is nothing to compare with."""
    (mystery,) = scene.causes

    @scene.service("sorting", Order)
    def sort(order: Order, work: Work) -> None:
        raise mystery(ValueError())

    scene.traffic(2, Order)


@incident("unclear")
def bare_exception_for_all_of_three(scene: Scene) -> None:
    """A service that calls a foreign program fails for its first three pages: `exit status 1`, no more."""
    (mystery,) = scene.causes

    @scene.service("rendering", Page, needs="renderer")
    def render(page: Page, work: Work) -> None:
        raise mystery(Exception("exit status 1"))

    scene.traffic(3, Page)
