"""An app that fans out and in: a site is crawled page by page, and reported when all of its pages are final."""

from __future__ import annotations

import os
from collections.abc import Iterable

from onward import App, Document, Event, Exponential, Joined, Permanent, RetryPolicy, Settings, Status, Work, names

STORE = "CRAWL_TEST_STORE"
AT_ONCE = RetryPolicy(Exponential(0.001), max_tries=3, name="at once")
PART = 3  # Pages of a large site between two checkpoints


class Site(Document):
    pages: str = ""  # A letter for each page: `.` is read, `!` fails, `~` fails once, `-` is removed by its reader
    large: bool = False


class Page(Document):
    kind: str = "."


class Report(Document, keys=("site",)):
    site: str
    joined: Joined
    unfinished: tuple[str, ...] = ()  # Pages that were not final when the report was written


class SiteFound(Event):
    site_id: str = names(Site)


class PageFound(Event):
    page_id: str = names(Page)


class SiteCrawled(Event):
    site_id: str = names(Site)
    joined: Joined = Joined()


def page_ids(site: Site) -> list[str]:
    return [f"{site.id}-{number}" for number in range(len(site.pages))]


def crawl_app(store: str | None = None) -> App:
    app = App(store=store, settings=Settings())

    @app.service("crawling", on=SiteFound, finishes=Site, policy=AT_ONCE)
    def crawl(site: Site, work: Work) -> None:
        pages = [Page(id=id, kind=kind) for id, kind in zip(page_ids(site), site.pages, strict=True)]
        size = PART if site.large else max(1, len(pages))
        for start in range(work.cursor or 0, len(pages), size):
            if site.large and start:
                work.checkpoint(start)
            part = [work.add(page, parent=None) for page in pages[start : start + size]]
            for page in part:
                work.emit(PageFound.of(page))
            work.when_all(part, then=SiteCrawled.of(site))
        if not pages:
            work.when_all([], then=SiteCrawled.of(site))

    @app.service("reading", on=PageFound, finishes=Page, policy=AT_ONCE)
    def read(page: Page, work: Work) -> None:
        if page.kind == "!":
            raise Permanent("there is no such page")
        if page.kind == "~" and work.try_number == 1:
            raise ConnectionError("try again")
        if page.kind == "-":
            work.remove(page)

    @app.service("reporting", on=SiteCrawled, policy=AT_ONCE)
    def report(event: SiteCrawled, work: Work) -> None:
        site = work.store.get(Site, event.site_id)
        states = [work.store.state(Page, id) for id in page_ids(site)] if site is not None else []
        unfinished = [state.id for state in states if state is not None and not state.final]
        # The key has the id of the event: if it was published twice, there would be two reports.
        work.add(Report(id=work.key, site=event.site_id, joined=event.joined, unfinished=tuple(unfinished)))

    return app


def publish(app: App, *sites: Site) -> None:
    for site in sites:
        app.publish(SiteFound.of(site), documents=[site])


def reports_of(app: App, site: str) -> list[Report]:
    ids = [state.id for state in app.store.states(Report, limit=100_000)]
    return [one for one in app.store.get_many(Report, ids) if one.site == site]


def expected(app: App, site: Site) -> Joined:
    """How the pages of a site have ended, as their states say."""
    states = {id: app.store.state(Page, id) for id in page_ids(site)}
    failed = sorted(f"pages/{id}" for id, state in states.items() if state and state.status != Status.PROCESSED)
    removed = sum(state is None for state in states.values())
    return Joined(
        total=len(states),
        processed=len(states) - len(failed) - removed,
        failed=len(failed),
        removed=removed,
        failed_ids=tuple(failed),
    )


def problems(app: App, sites: Iterable[Site]) -> list[str]:
    """What is wrong after workers have crashed: a site has one event, with counts that agree with its pages."""
    found = [f"{one.event_type} still waits for {one.open_documents}" for one in app.store.open_joins()]
    # Three crashes of the handler that reports: the event was published all the same.
    given_up = [one.original_event["data"] for one in app.store.dead_letters("reporting") if one.original_event]
    for site in sites:
        joined = [one.joined for one in reports_of(app, site.id)]
        joined += [Joined(**data["joined"]) for data in given_up if data["site_id"] == site.id]
        found += [
            f"{site!r}: {one.unfinished} was not final" for one in reports_of(app, site.id) if one.unfinished
        ]
        own = app.store.state(Site, site.id)
        if own is not None and own.status == Status.FAILED and not joined:
            continue  # it was given up after three crashes, before its first commit
        if len(joined) != 1:
            found.append(f"{site!r} has {len(joined)} events: {joined}")
        elif (own is None or own.status == Status.PROCESSED) and joined[0] != expected(app, site):
            found.append(f"{site!r}: {joined[0]!r}, not {expected(app, site)!r}")
    return found


if STORE in os.environ:
    app = crawl_app(os.environ[STORE])
