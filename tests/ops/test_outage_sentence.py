"""An outage is one sentence, the same on the command line, in the console and in the API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.ops.queries.services import Outage
from onward.ops.text.format import utc_time
from onward.ops.text.outages import outage_text

NOON = 1_800_000_000.0  # 2027-01-15 08:00 UTC
DOWN = Outage(
    "model", "open", NOON - 3600, 3600.0, 1, "refused.", "", False, False, 20.0, NOON + 20, None,
    ("embedding",), 1200, NOON,
)  # fmt: skip


def said(**changes: object) -> str:
    return outage_text(replace(DOWN, **changes), utc_time)  # type: ignore[arg-type]


def test_it_says_which_dependency_since_when_why_what_waits_and_the_next_probe() -> None:
    assert said() == (
        "model has been down since 2027-01-15 07:00 UTC: refused. 1 200 events wait; it is asked again in 20 s"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    (
        ({"reason": ""}, "model has been down since 2027-01-15 07:00 UTC. 1 200 events wait"),
        ({"waiting": 1}, ": refused. 1 event waits; it is asked again in 20 s"),
        ({"waiting": 0}, ": refused; it is asked again in 20 s"),
        ({"asked_again": NOON - 5}, "; it is asked again as soon as a worker runs"),
        ({"openings": 3}, "model has failed on and off since 2027-01-15 07:00 UTC (3 times): refused"),
        ({"openings": 3, "state": "recovering"}, "(3 times), and works at the moment: refused. 1 200 events wait"),
        ({"state": "recovering", "waiting": 0}, "model works again, after it was down: refused"),
        ({"state": "unreached"}, "model has not been reached since 2027-01-15 07:00 UTC: refused. 1 200"),
        ({"needs_person": True}, "it is asked again in 20 s. It needs a person"),
        ({"needs_person": True, "remedy": "Set a key."}, "in 20 s. It needs a person: Set a key"),
        ({"remedy": "Set a key."}, "in 20 s. Set a key"),
        (
            {"by_hand": True, "needs_person": True, "asked_again": None},
            "by hand since 2027-01-15 07:00 UTC: refused. 1 200 events wait; bring it back when it works",
        ),
        (
            {"state": "paused", "since": None, "paused_until": NOON + 60},
            "model has reached its rate limit and is paused until 2027-01-15 08:01 UTC. 1 200 events wait",
        ),
    ),
)
def test_the_other_cases(changes: dict[str, object], text: str) -> None:
    assert text in said(**changes)


def test_who_took_it_out_of_service_is_not_given_the_remedy_twice() -> None:
    text = said(by_hand=True, needs_person=True, asked_again=None, remedy="onward breakers close model")
    assert text.endswith("; bring it back when it works")
