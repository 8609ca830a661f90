"""Retries: pure policies, backoffs and the classification of errors.

Nothing here imports another package of Onward, and the policies read no clock. Only `retry_call` waits.
"""

from onward.retry.classify import classify
from onward.retry.errors import Classified, Kind, Malformed, NotReady, OnwardError, Permanent, Unavailable
from onward.retry.policy import Exponential, GiveUp, Ladder, Reason, Retry, RetryConfig, RetryPolicy, Schedule
from onward.retry.redact import redact, redact_error
from onward.retry.retry_call import handle_event_with_retry, retrying

__all__ = ["Classified", "Kind", "Malformed", "NotReady", "OnwardError", "Permanent"]
__all__ += ["Unavailable", "classify", "redact", "redact_error"]
__all__ += ["Exponential", "GiveUp", "Ladder", "Reason", "Retry", "RetryPolicy", "Schedule"]
__all__ += ["RetryConfig", "handle_event_with_retry", "retrying"]
