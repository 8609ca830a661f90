"""Points in time as programs exchange them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.retry.iso_time import iso_time, read_time

HALF_PAST_TEN = 1_705_314_600.0  # 15 January 2024, 10:30 UTC


@pytest.mark.parametrize(
    "written",
    (
        "2024-01-15T10:30:00Z",
        "2024-01-15t10:30:00z",
        " 2024-01-15T10:30:00.000+00:00 ",
        "2024-01-15T12:00:00+01:30",
        "2024-01-15T10:30:00",
        "2024-01-15 10:30",
        1_705_314_600,
        1_705_314_600.0,
        1_705_314_600_000,
    ),
)
def test_a_time_is_read_however_another_program_writes_it(written: object) -> None:
    assert read_time(written) == HALF_PAST_TEN


@pytest.mark.parametrize(
    "written", (None, "", "yesterday", True, [], {}, float("nan"), float("inf"), -1, 10**400, 1e30, "0000-00-00")
)
def test_what_is_no_time_is_none(written: object) -> None:
    assert read_time(written) is None


@given(st.integers(0, 250_000_000_000_000_000))
def test_a_time_that_was_written_is_read_as_the_same(microseconds: int) -> None:
    at = microseconds / 1e6
    assert iso_time(at).endswith("Z")
    assert read_time(iso_time(at)) == pytest.approx(at, abs=1e-5)
