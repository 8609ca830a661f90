"""Failure groups in the console: what is probably wrong, what it affects, and putting it right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward.model.documents import Status
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLettered
from tests.console.shop import ODD, Shop, open_shop, words
from tests.support.failed_pages import fail, failure, finish

GROUP = "beef1234"
OTHER = "cafe5678"
BROKEN = Failure(
    at=0.0,
    error_type="KeyError",
    message="no subject",
    fingerprint=GROUP,
    version="1.0",
    kind="permanent",
    place="pages:read",
)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Six pages that fail for one reason, one for another, and three that went well."""
    with open_shop(tmp_path) as found:
        found.give_up(BROKEN, *(f"page-{one}" for one in "abcdef"))
        fail(found.on, ODD, fingerprint=OTHER, message="<script>alert('x')</script> password=tinder")
        finish(found.on, "good", "better", "best")
        yield found


def status(shop: Shop, id: str) -> str:
    return str(shop.on.state(id).status)


# -- the list


def test_groups_are_listed_with_verdict_and_weight_the_heaviest_first(shop: Shop) -> None:
    text = shop.words("/failures")
    assert text.index("KeyError: no subject") < text.index("alert('x')")
    assert "bug or bad deploy 6 documents" in text
    assert "poison document 1 document" in text
    assert "1–2 of 2 groups" in text


def test_what_an_error_says_is_shown_and_never_run(shop: Shop) -> None:
    for path in ("/failures", f"/failures/{OTHER}"):
        page = shop.page(path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert "tinder" not in page, "a secret in an error is hidden"


def test_only_groups_of_one_service_are_shown_if_asked_for(shop: Shop) -> None:
    shop.on.store.report_failure("drawing", failure("out of ink", "1nc"))
    assert "out of ink" in shop.words("/failures?service=drawing&all=yes")
    assert "no subject" not in shop.words("/failures?service=drawing&all=yes")
    assert "Nothing fails now" in shop.words("/failures?service=drawing"), "it affects nothing"


def test_what_is_over_is_hidden_unless_asked_for(shop: Shop) -> None:
    shop.on.store.report_failure("drawing", failure("out of ink", "1nc"))
    assert "out of ink" not in shop.words("/failures")
    assert "1 group affects nothing any more" in shop.words("/failures")
    assert "out of ink" in shop.words("/failures?all=yes")


def test_fifty_groups_are_a_page(shop: Shop) -> None:
    for number in range(55):
        shop.on.store.report_failure("drawing", failure(f"broken {number:02}", f"dead{number:02}"))
    first, second = shop.page("/failures?all=yes"), shop.page("/failures?all=yes&page=2")
    assert (first.count("<tr>") - 1, second.count("<tr>") - 1) == (50, 7)
    assert 'href="/failures?all=yes&amp;page=2"' in first
    assert "51–57 of 57 groups" in second
    assert "There are no more groups" in shop.page("/failures?all=yes&page=9")


@pytest.mark.parametrize("number", ("0", "-1", "x", "99999999", "٣"))
def test_a_page_number_that_makes_no_sense_does_no_harm(shop: Shop, number: str) -> None:
    shop.page(f"/failures?page={number}")


def test_the_list_is_live(shop: Shop) -> None:
    parts = shop.watch("/failures/1/now//")
    assert "6 documents" in next(parts)
    shop.on.store.discard("pages", "page-a")
    assert "5 documents" in next(parts)


# -- one group


def test_a_group_tells_its_verdict_and_evidence_in_sentences(shop: Shop) -> None:
    text = shop.words(f"/failures/{GROUP}")
    assert "Probably bug or bad deploy" in text
    assert "6 documents failed this way, 6 times in all." in text
    assert "Affects now 6 of 6 documents" in text
    assert f"Group {GROUP}" in text


def test_versions_and_openings_are_drawn_and_the_traceback_is_folded(shop: Shop) -> None:
    late = replace(
        failure("late", "1a7e"), at=shop.on.store.now(), traceback="Traceback …\nLate: late", kind="timeout"
    )
    shop.on.store.register_worker("anna", {"version": "shop 7", "services": {"drawing": 1}})
    shop.on.store.report_failure("drawing", late)
    shop.on.store.open_breaker("printer", "it burns: password=tinder")
    page = shop.page("/failures/1a7e")
    for line in ("failures", "printer open", "shop 7"):
        assert f'<span class="cut" title="{line}">' in page
    assert 'aria-label="printer open: 1 time, not over yet"' in page
    assert '<details id="traceback">' in page
    assert "Late: late" in page
    assert "tinder" not in page


def test_the_buttons_match_the_verdict(shop: Shop) -> None:
    links = shop.links(f"/failures/{GROUP}")
    assert f"/confirm/retry-group?fingerprint={GROUP}&growing=yes&rate=" in links, "a bug: a few first"
    assert f"/confirm/discard-group?fingerprint={GROUP}" not in links, "not the documents' fault"
    links = shop.links(f"/failures/{OTHER}")
    assert f"/confirm/discard-group?fingerprint={OTHER}" in links
    assert f"/confirm/retry-group?fingerprint={OTHER}&canary=&rate=" in links, "a poison document: once more"


def test_where_nothing_is_affected_there_is_nothing_to_do(shop: Shop) -> None:
    shop.on.store.report_failure("drawing", failure("out of ink", "1nc"))
    assert "Nothing: it affects nothing any more." in shop.words("/failures/1nc")
    assert not [one for one in shop.links("/failures/1nc") if one.startswith("/confirm/")]


def test_a_document_with_an_odd_id_is_linked(shop: Shop) -> None:
    assert "/documents/pages/a%2Fb%20%22c%22%20%252F%3F%23%26%3Cd%3E" in shop.links(f"/failures/{OTHER}")


def test_affected_documents_come_fifty_at_a_time(shop: Shop) -> None:
    fail(shop.on, *(f"many-{one:03}" for one in range(60)), fingerprint="a110")
    links = shop.links("/failures/a110")
    assert sum(one.startswith("/documents/pages/many-") for one in links) == 50 + 1, "and one to look at"
    (following,) = (one for one in links if one.startswith("/failures/a110?after="))
    assert [one[-8:] for one in shop.links(following) if one.startswith("/documents/pages/")] == [
        f"many-{one:03}" for one in range(50, 60)
    ]


def test_the_beginning_of_a_fingerprint_will_do_and_another_is_not_found(shop: Shop) -> None:
    assert "no subject" in shop.page("/failures/beef")
    assert "There is no failure group" in shop.page("/failures/0000", 404)
    assert "There is no failure group" in shop.page("/failures/..%2F..%2Fetc", 404)


# -- putting it right


def test_it_is_said_first_what_would_go_back(shop: Shop) -> None:
    text = shop.words(f"/confirm/retry-group?fingerprint={GROUP}&canary=3")
    assert "6 dead letters would be put back, 3 of them first." in text
    assert "If that was wrong: stop it while it runs" in text
    assert shop.actions() == []
    assert status(shop, "page-a") == Status.FAILED


@pytest.mark.parametrize(
    ("field", "value"),
    (("canary", "x"), ("canary", "-1"), ("canary", "1.5"), ("rate", "0"), ("rate", "nan"), ("rate", "fast")),
)
def test_a_pace_that_makes_no_sense_is_refused(shop: Shop, field: str, value: str) -> None:
    assert f"{field} is '{value}'" in shop.words(f"/confirm/retry-group?fingerprint={GROUP}&{field}={value}", 422)


def test_a_group_goes_back_after_its_canary(shop: Shop) -> None:
    operation = shop.begin("retry-group", fingerprint=GROUP, canary="1")
    shop.wait_for(operation, "canary: 0 of 1 done")
    assert [status(shop, f"page-{one}") for one in "ab"] == [Status.PENDING, Status.FAILED]
    assert shop.actions() == [("console", "failures retry", 1)], "what went back is kept before it is waited for"
    assert shop.finish() == 1
    said = shop.wait_for(operation, "6 dead letters put back")
    assert "The first one went well." in said
    assert shop.finish(10) == 5
    assert shop.actions() == [("console", "failures retry", 1), ("console", "failures retry", 5)]
    assert "Nothing: it affects nothing any more." in shop.words(f"/failures/{GROUP}")


def test_if_the_canary_fails_the_rest_stays(shop: Shop) -> None:
    operation = shop.begin("retry-group", fingerprint=GROUP, canary="1")
    shop.wait_for(operation, "canary:")
    shop.on.settle(
        shop.on.take(), DeadLettered(["page-a"], failure=failure("still broken", GROUP), charge=Charge.TRY)
    )
    said = shop.wait_for(operation, "Stopped by the canary: 1 of 1 failed again: ValueError: still broken")
    assert "5 left where they are." in said
    assert "note bad" in shop.page(operation)


def test_it_can_be_stopped_while_it_waits(shop: Shop) -> None:
    operation = shop.begin("retry-group", fingerprint=GROUP, canary="1")
    shop.wait_for(operation, "canary:")
    page = shop.page(operation)
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    shop.site.client.post(f"{operation}/stop", data={"form_token": token})
    shop.wait_for(operation, "Stopped by an operator")
    assert status(shop, "page-b") == Status.FAILED
    assert shop.actions() == [("console", "failures retry", 1)]


def test_documents_without_a_letter_are_tried_again(shop: Shop) -> None:
    shop.on.store.purge_dead_letters([one.row for one in shop.on.store.find_dead_letters(fingerprint=GROUP)])
    text = shop.words(f"/confirm/retry-group?fingerprint={GROUP}")
    assert "6 documents without a dead letter would be tried again." in text
    operation = shop.begin("retry-group", fingerprint=GROUP)
    assert "6 documents will be tried again now." in shop.wait_for(operation, "will be tried again")


def test_of_a_large_group_the_letters_are_only_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.actions.failure_groups.MAX_QUICK_PLAN", 3)
    text = shop.words(f"/confirm/retry-group?fingerprint={GROUP}")
    assert "Up to 6 documents and 6 dead letters would go back." in text


def test_a_group_is_given_up_for_good(shop: Shop) -> None:
    text = shop.words(f"/confirm/discard-group?fingerprint={GROUP}")
    assert "6 documents and 6 dead letters would be given up." in text
    assert "This is final." in text
    assert "6 documents given up for good." in shop.site.do("discard-group", {"fingerprint": GROUP})
    assert status(shop, "page-a") == Status.DISCARDED
    assert shop.actions() == [("console", "failures discard", 6)]
    assert "Nothing of this group is left to give up." in shop.words(f"/confirm/discard-group?fingerprint={GROUP}")


def test_a_change_says_what_is_missing(shop: Shop) -> None:
    assert "<code>fingerprint</code> is missing" in shop.page("/confirm/retry-group", 422)


def test_a_backquote_that_somebody_gave_is_shown_as_it_is(shop: Shop) -> None:
    assert "There is no action called 'a`b'." in shop.words("/confirm/a%60b", 404)


# -- several groups at once


def test_groups_that_are_ticked_are_put_back_one_after_the_other(shop: Shop) -> None:
    groups = [one.fingerprint for one in shop.on.store.failure_groups() if one.dead_letters]
    asked = shop.select("/failures", "retry-groups", groups, {})
    assert f"of {len(groups)} groups would go back" in words(asked)
    assert f"{shop.on.rows('dead')} dead letters" in words(asked)
    said = shop.confirm(asked)
    assert said.startswith("done")
    assert shop.on.rows("dead") == 0
    (operation,) = shop.on.store.operations()
    assert sorted(operation.cursor["done"]) == sorted(groups)


def test_all_groups_that_match_are_given_up(shop: Shop) -> None:
    nothing = shop.select("/failures", "retry-groups", [], {}, status=422)
    assert "nothing is selected" in words(nothing).lower()
    asked = shop.select("/failures", "discard-groups", [], {"all": "yes", "service": "reading"})
    assert "be given up for good" in words(asked)
    assert "This is final" in words(asked)
    assert "given up for good" in shop.confirm(asked)
    assert [one.fingerprint for one in shop.on.store.failure_groups(service="reading") if one.affected] == []
