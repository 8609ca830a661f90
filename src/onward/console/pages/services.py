"""Services: what each one did over time, and how it stands."""

from __future__ import annotations

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from onward.app import App
from onward.console.history_charts import HistoryChart, history_chart, read_range
from onward.console.page_templates import fragment, page, page_path
from onward.console.request_context import Onward
from onward.ops.bad_input import NotFound
from onward.ops.queries.service_history import read_history
from onward.ops.queries.services import breaker_facts, service_facts
from onward.ops.text.format import one_line

router = APIRouter(include_in_schema=False)


def read_chart(app: App, asked: str, service: str | None = None) -> HistoryChart:
    """Return the chart of a service, or of all, for the time range that a request names."""
    here = "/" if service is None else page_path("services", service)
    return history_chart(read_history(app.store, read_range(asked), service), here)


def chart_html(chart: HistoryChart, service: str | None = None) -> Markup:
    return Markup(fragment("history.html", chart=chart, title="All services" if service is None else "Over time"))


@router.get("/history")
def show_chart(request: Request, app: Onward) -> Response:
    """Return the chart alone, for pages that are open for long."""
    service = request.query_params.get("service") or None
    chart = read_chart(app, request.query_params.get("range", ""), service)
    return HTMLResponse(chart_html(chart, service), headers={"cache-control": "no-store"})


@router.get("/services")
def show_services(request: Request, app: Onward) -> Response:
    return page(request, "services.html", services=service_facts(app.store))


@router.get("/services/{service:path}")
def show_service(request: Request, app: Onward, service: str) -> Response:
    known = {one.service: one for one in app.store.subscriptions()}
    facts = next((one for one in service_facts(app.store) if one["service"] == service), None)
    if facts is None or service not in known:
        raise NotFound(f"there is no service {one_line(service, 60)!r}; /services lists them")
    chart = read_chart(app, request.query_params.get("range", ""), service)
    down = {one["dependency"]: one["state"] for one in breaker_facts(app) if one["state"] != "closed"}
    return page(
        request,
        "service.html",
        one=facts,
        needs=known[service].needs,
        down=down,
        chart=chart,
        part=chart_html(chart, service),
    )
