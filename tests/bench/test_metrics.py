"""The measures of search quality, against values computed by hand."""

from __future__ import annotations

import math

import pytest

from bench.metrics import Halves, Measures, ndcg, recall, reciprocal_rank

GRADES = {"a": 3, "b": 1, "c": 2, "no": 0}
# Gains 2^3-1 = 7, 2^2-1 = 3 and 2^1-1 = 1, each divided by log2(place + 1); the best order is a, c, b.
BEST = 7 / 1 + 3 / math.log2(3) + 1 / 2


def test_the_best_order_has_ndcg_1_and_no_relevant_result_has_0() -> None:
    assert ndcg(["a", "c", "b"], GRADES) == pytest.approx(1.0)
    assert ndcg(["x", "no", "y"], GRADES) == 0.0
    assert ndcg([], GRADES) == 0.0


def test_ndcg_discounts_by_place() -> None:
    # b at place 1 gains 1, nothing at place 2, a at place 3 gains 7 / log2(4).
    assert ndcg(["b", "x", "a"], GRADES) == pytest.approx((1 + 7 / 2) / BEST)
    assert pytest.approx(9.3928, abs=1e-4) == BEST


def test_ndcg_counts_the_first_results_only_in_the_ranking_and_in_the_ideal() -> None:
    assert ndcg(["x", "a"], GRADES, depth=1) == 0.0
    assert ndcg(["c", "a"], GRADES, depth=1) == pytest.approx(3 / 7)


def test_the_reciprocal_rank_is_that_of_the_first_relevant_result() -> None:
    assert reciprocal_rank(["a", "b"], GRADES) == 1.0
    assert reciprocal_rank(["x", "no", "y", "b"], GRADES) == 0.25
    assert reciprocal_rank(["x"], GRADES) == 0.0


def test_recall_is_the_share_of_relevant_documents_that_are_found() -> None:
    assert recall(["x", "a", "no", "b"], GRADES) == pytest.approx(2 / 3)
    assert recall(["x", "a", "b"], GRADES, depth=2) == pytest.approx(1 / 3)
    assert recall(["a"], {}) == 0.0


def test_a_result_that_is_listed_twice_counts_once_for_recall() -> None:
    assert recall(["a", "a"], GRADES) == pytest.approx(1 / 3)


def test_questions_are_split_by_place_into_a_tuned_and_a_reported_half() -> None:
    measured = [Measures(value, value / 2, 1.0) for value in (1.0, 0.2, 0.5, 0.4, 0.0)]
    halves = Halves.of(measured)
    assert halves.tuned == pytest.approx((0.5, 0.25, 1.0))
    assert halves.reported == pytest.approx((0.3, 0.15, 1.0))
