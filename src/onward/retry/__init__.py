"""Retries: pure policies, backoffs and the classification of errors.

Nothing here reads a clock or does I/O by itself, or imports another package of Onward.
"""

from onward.retry.backoff import Backoff, Exponential, Schedule
from onward.retry.classify import Classified, Classifier, Kind, classify, parse_retry_after
from onward.retry.errors import DocumentNotFoundError, Malformed, NotReady, OnwardError, Permanent, Unavailable
from onward.retry.event_retry import RetryConfig, handle_event_with_retry
from onward.retry.ladder import Ladder
from onward.retry.policy import Decision, GiveUp, Reason, Retry, RetryPolicy
from onward.retry.redact import redact, redact_error
from onward.retry.retry_call import Attempt, Retrying, retrying

__all__ = [
    "Attempt",
    "Backoff",
    "Classified",
    "Classifier",
    "Decision",
    "DocumentNotFoundError",
    "Exponential",
    "GiveUp",
    "Kind",
    "Ladder",
    "Malformed",
    "NotReady",
    "OnwardError",
    "Permanent",
    "Reason",
    "Retry",
    "RetryConfig",
    "RetryPolicy",
    "Retrying",
    "Schedule",
    "Unavailable",
    "classify",
    "handle_event_with_retry",
    "parse_retry_after",
    "redact",
    "redact_error",
    "retrying",
]
