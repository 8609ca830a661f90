"""Retries: pure policies, backoffs and the classification of errors.

Nothing here reads a clock or does I/O by itself, or imports another package of Onward.
"""

from onward.retry.errors import (
    Classified,
    Classifier,
    DocumentNotFoundError,
    Kind,
    Malformed,
    NotReady,
    OnwardError,
    Permanent,
    Unavailable,
    classify,
    parse_retry_after,
)
from onward.retry.policy import (
    Backoff,
    Decision,
    Exponential,
    GiveUp,
    Ladder,
    Reason,
    Retry,
    RetryPolicy,
    Schedule,
)
from onward.retry.redact import redact, redact_error
from onward.retry.retry_call import Attempt, RetryConfig, Retrying, handle_event_with_retry, retrying

__all__ = ["Classified", "Classifier", "Kind", "classify", "parse_retry_after"]
__all__ += ["DocumentNotFoundError", "Malformed", "NotReady", "OnwardError", "Permanent", "Unavailable"]
__all__ += ["Backoff", "Decision", "Exponential", "GiveUp", "Ladder", "Reason", "Retry", "RetryPolicy", "Schedule"]
__all__ += ["redact", "redact_error"]
__all__ += ["Attempt", "RetryConfig", "Retrying", "handle_event_with_retry", "retrying"]
