"""The API keeps to its own description, whatever it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings

from onward.console import build
from onward.pipeline.sources import submit
from tests.support.command_runs import SAMPLE
from tests.support.console_client import Site, pipeline, serving

pytestmark = pytest.mark.prove

# That a URL names a host, a source is known, and a query a word that is wanted, no schema can say.
_REFUSED_ALL_THE_SAME = {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "422"]}}
CONFIG = schemathesis.Config.from_dict(
    {
        "operations": [
            {"include-name": name, "checks": _REFUSED_ALL_THE_SAME}
            for name in ("POST /v3/documents", "POST /v3/sources", "GET /v3/search")
        ]
    }
)
web = build(pipeline(Path("never-opened"))).web
assert isinstance(web, FastAPI)
api = schemathesis.openapi.from_dict(web.openapi(), config=CONFIG)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running API, whose store holds the sample; what is submitted to it is not fetched."""
    app = pipeline(tmp_path_factory.mktemp("described"), ONWARD_SERVE_REQUESTS_PER_SECOND="100000")
    submit(app, str(SAMPLE))
    app.work_until_idle()
    with serving(app) as site:
        yield site
    app.close()


@api.parametrize()
@settings(
    max_examples=6,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_call_answers_as_described(described: Site, case: Any) -> None:
    case.call_and_validate(base_url=described.url)
