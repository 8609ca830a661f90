"""The pipeline as a picture: which services are boxes; and which texts are read column by column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.console.charts import pipeline_chart
from onward.console.pages.documents import is_patch
from onward.ops.queries.status import read_status
from tests.support.console_client import Site


def drawn(site: Site, **changes: Any) -> list[str]:
    """The boxes of a pipeline that also has a helper, which stands so."""
    status = read_status(site.app, [])
    helper = replace(status.stages[0], service="orchestration.chunks", waiting=0, working=0, dead_letters=0)
    stages = [stage for stage in status.stages if "." not in stage.service]
    status = replace(status, stages=[*stages, replace(helper, **changes)])
    return [box.stage.service for box in pipeline_chart(status, site.app.store.subscriptions()).boxes]


def test_a_service_that_follows_up_what_failed_is_drawn_while_it_has_something_to_do(library: Site) -> None:
    assert drawn(library)[-1] == "summarization"
    for what in ("waiting", "working", "dead_letters"):
        assert drawn(library, **{what: 1})[-1] == "orchestration.chunks", what


def test_a_quiet_service_of_somebody_elses_app_is_drawn(library: Site) -> None:
    assert drawn(library, service="shop.orders")[-1] == "shop.orders"


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("Hello,\ndiff --git a/x b/x\n", True),
        ("@@ -1,2 +1,3 @@\n", True),
        ("Hello\n 3 files changed, 9 insertions(+)\n", True),
        ("I changed 3 files, and used diff --git once.\n-- \nAda", False),
        ("", False),
    ),
)
def test_a_patch_is_known_by_its_lines(text: str, expected: bool) -> None:
    assert is_patch(text) is expected
