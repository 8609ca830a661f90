"""Crawl 100 pages, then report: python -m examples.crawl URL, and onward worker --app examples.crawl:app."""

import sys

import httpx2

from onward import App, Document, Event, Joined, Work, names

app, certificates = App(), httpx2.create_ssl_context()


class Page(Document):
    url: str


class PageFound(Event):
    page_id: str = names(Page)


class SiteCrawled(Event):
    site: str
    joined: Joined = Joined()  # filled in when all pages are final


@app.service("fetching", on=PageFound, finishes=Page)
async def fetch(page: Page, work: Work) -> None:
    async with httpx2.AsyncClient(verify=certificates) as client:
        (await client.get(page.url)).raise_for_status()  # 503 is retried, 404 is given up


@app.service("reporting", on=SiteCrawled)
def report(crawled: SiteCrawled, work: Work) -> None:
    print(crawled.site, crawled.joined, flush=True)


if __name__ == "__main__":
    pages = [Page(id=f"{sys.argv[1]}/{number}", url=f"{sys.argv[1]}/{number}") for number in range(100)]
    app.publish(*map(PageFound.of, pages), documents=pages)
    app.when_all(pages, then=SiteCrawled(site=sys.argv[1]))
