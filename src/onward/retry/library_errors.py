"""What the errors of common libraries mean, by their names, codes and messages; no library is imported for it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from onward.retry.errors import Classified, Kind

MAX_CHAIN = 10  # Errors of a chain that are looked at
MAX_SEARCHED = 4_000  # Characters of a message in which a meaning is looked for

PLAIN = Classified(Kind.TRANSIENT)
UNAVAILABLE = Classified(Kind.TRANSIENT, unavailable=True)
UNREACHED = Classified(Kind.TRANSIENT, unavailable=True, unreached=True)
RATE_LIMITED = Classified(Kind.TRANSIENT, unavailable=True, rate_limited=True)
PERMANENT = Classified(Kind.PERMANENT)
# The capacity of a server; that of this machine is no dependency's.
BUSY = Classified(Kind.TRANSIENT, unavailable=True, capacity=True)
EXHAUSTED = Classified(Kind.TRANSIENT, capacity=True)


def refused(remedy: str) -> Classified:
    """Return the classification of a refusal. It opens nothing: it may be about one document only."""
    return Classified(Kind.TRANSIENT, unavailable=True, refused=True, remedy=remedy)


KEY_REFUSED = refused("The key or password was refused: check it, renew it, and what it is allowed to do.")
NO_CREDIT = refused("The account has no credit or quota left: raise its limit, or pay, at the provider.")
BAD_CERTIFICATE = refused(
    "The certificate is not accepted: renew it, or correct the trust store or the host name."
)
WRONG_CLOCK = refused("The clock of our machine differs from the server's: set it, and keep it in time.")

_THROTTLED = frozenset(
    {
        *("SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "ProvisionedThroughputExceededException"),
        *("RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "PriorRequestNotComplete"),
        *("EC2ThrottledException", "TooManyRequests", "rate_limit_exceeded", "overloaded_error"),
    }
)
_REFUSED = frozenset(
    {
        *("AccessDenied", "AccessDeniedException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"),
        *("ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId", "AuthFailure"),
        *("KMS.DisabledException", "KMSDisabledException", "DisabledException", "AccountProblem", "OptInRequired"),
        *("NotSignedUp", "AllAccessDisabled", "InvalidSecurity", "AuthorizationHeaderMalformed"),
        *("RequestExpired", "InvalidToken", "TokenRefreshRequired", "invalid_api_key", "authentication_error"),
    }
)
_GRPC: dict[str, Classified] = (
    dict.fromkeys(("UNAVAILABLE", "INTERNAL", "UNKNOWN", "DATA_LOSS", "ABORTED", "CANCELLED"), UNAVAILABLE)
    | dict.fromkeys(("UNAUTHENTICATED", "PERMISSION_DENIED"), KEY_REFUSED)
    | dict.fromkeys(("INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION"), PERMANENT)
    | dict.fromkeys(("OUT_OF_RANGE", "UNIMPLEMENTED"), PERMANENT)
    | {"DEADLINE_EXCEEDED": UNAVAILABLE, "RESOURCE_EXHAUSTED": RATE_LIMITED}
)
# By the first characters of an SQLSTATE; the longest that fits counts.
_SQLSTATES: dict[str, Classified] = {
    "08": UNREACHED,
    "28": KEY_REFUSED,
    "40": BUSY,  # serialisation failures and deadlocks
    "42": PLAIN,  # a table or column that is not there: a retry may come after the migration
    "42501": KEY_REFUSED,  # insufficient privilege
    "53": BUSY,  # memory, connections
    "53100": UNAVAILABLE,  # the disk of the server is full, and stays so
    "55P03": BUSY,  # a lock was not available
    "57P": UNAVAILABLE,  # the server shuts down, or starts
    "57014": UNAVAILABLE,  # the statement took too long
    "58": UNAVAILABLE,
}
_MYSQL: dict[int, Classified] = (
    dict.fromkeys((2002, 2003, 2005), UNREACHED)
    | dict.fromkeys((2006, 2013, 2055, 1053), UNAVAILABLE)
    | dict.fromkeys((1040, 1203, 1205, 1213, 1226), BUSY)
    | dict.fromkeys((1044, 1045, 1142, 1698), KEY_REFUSED)
)
_ERRNOS: dict[int, Classified] = (
    dict.fromkeys((errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH), UNREACHED)
    | dict.fromkeys(
        (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN), EXHAUSTED
    )
    | dict.fromkeys((errno.EIO, errno.ESTALE, errno.ENOTCONN), UNAVAILABLE)  # a disk or share that is away
)
# The meaning of a message whose error says nothing else. For the diagnosis only: words decide about no retry.
_MEANINGS: tuple[tuple[re.Pattern[str], Classified], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"insufficient[_ ]quota|exceeded your current quota|billing|out of credit|payment required", NO_CREDIT),
        (r"too many requests|rate.?limit|rate exceeded|throttl|slow ?down|overloaded|over capacity", RATE_LIMITED),
        (r"(?:daily|hourly|usage|request|concurrency) limit|quota (?:has been )?exceeded", RATE_LIMITED),
        (r"exceed\w* (?:its|the|your|their) (?:\w+ )?quota|threshold reached|\bqosmax", RATE_LIMITED),
        (r"too many (?:concurrent|parallel)", RATE_LIMITED),
        (r"database (?:table )?is locked|deadlock|lock (?:wait )?timeout|could not obtain lock", BUSY),
        (r"too many (?:\w+ )?(?:clients|connections|queued|jobs|sessions)", BUSY),
        (r"max\w* (?:number of )?(?:clients|connections)", BUSY),
        (r"connection slots|pool (?:limit|exhausted|timeout)|queuepool", BUSY),
        (r"\b(?:is|are|too) busy\b|server ?busy|at capacity|rejected.execution|maxmemory", BUSY),
        (r"cannot service this request right now", BUSY),
        (r"queue\w* (?:is )?(?:full|exceeded)|low on memory|(?:memory|resource) alarm", BUSY),
        (r"signals?\.sigkill|oom[- ]?kill|exit (?:status|code) 137", EXHAUSTED),
        (
            r"too many open files|no space left|disk quota|out of memory|cannot allocate|start new thread",
            EXHAUSTED,
        ),
        (r"certificate (?:verify failed|has expired|is not valid)|certificate_verify_failed", BAD_CERTIFICATE),
        (
            r"invalid (?:api[ _-]?key|credentials|token|access key)|unauthori[sz]ed|authentication failed",
            KEY_REFUSED,
        ),
        (
            r"invalid_grant|account (?:has been |is )?(?:disabled|suspended|locked|closed)|login incorrect",
            KEY_REFUSED,
        ),
        (r"licen[cs]e (?:has |is )?(?:expired|invalid|exceeded)|flexnet|flexlm|not logged in", KEY_REFUSED),
        (r"(?:key|token|trial|feature|account|session|secret|subscription)\b.{0,40}\bexpired", KEY_REFUSED),
        (r"bad credentials|api[ _-]?key not valid|invalid_client|noauth|wrongpass|not authori[sz]ed", KEY_REFUSED),
        (r"host key verification failed|blocklist|blacklist", KEY_REFUSED),
        (r"self.signed certificate|untrusted certificate|unknown ca\b", BAD_CERTIFICATE),
        (r"password authentication failed|(?:access|permission) denied for user|login failed", KEY_REFUSED),
        (r"connection refused|name or service not known|name resolution|nodename nor servname", UNREACHED),
        (
            r"no route to host|network is unreachable|could ?n.?o?t connect|cannot connect|failed to connect",
            UNREACHED,
        ),
        (
            r"getaddrinfo|could not translate host name|unknown host|failed to resolve|max retries exceeded",
            UNREACHED,
        ),
        (r"err_(?:connection_(?:refused|timed_out)|name_not_resolved|address_unreachable|internet)", UNREACHED),
        (
            r"temporarily (?:not available|unavailable)|under maintenance|clusterdown|loading the dataset",
            UNAVAILABLE,
        ),
        (
            r"eof occurred|unexpected eof|not ?enough ?replicas|no leader|not ?leader|not primary",
            UNAVAILABLE,
        ),
        (
            r"connection (?:was )?(?:reset|aborted|closed|lost)|broken pipe|server (?:closed|disconnected)",
            UNAVAILABLE,
        ),
        (r"service unavailable|bad gateway|gateway time-?out|internal server error|server error", UNAVAILABLE),
        (r"\btime[d -]?out\b|deadline exceeded|took too long", UNAVAILABLE),
    )
)
_SENDER_REFUSED = re.compile(
    r"block(?:ed|list| list)|blacklist|(?:spf|dkim|dmarc)\b|poor reputation|spamhaus", re.IGNORECASE
)
_REJECTIONS = re.compile(
    r"sqlstate (?:22|23|42)|smtp 5(?!3[0458])"
    r"|aws (?:NoSuch|Invalid(?!AccessKey|Client|Token)|Validation|MalformedXML)"
    r"|grpc (?:INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|FAILED_PRECONDITION|OUT_OF_RANGE|UNIMPLEMENTED)"
)
_MISSING_SCHEMA = re.compile(
    r"no such (?:table|column)|(?:relation|column|table) \S{1,80} does not exist|unknown column",
    re.IGNORECASE,
)
_STATUS_PHRASES = "|".join(
    re.escape(status.phrase) for status in HTTPStatus if status >= 400 and status.phrase.isascii()
)
_STATUS_IN_TEXT = re.compile(
    r"\b(?:http(?:/\d(?:\.\d)?)?|status(?:[ _]?code)?|response(?: code)?|(?:client|server) error)"
    r"\b[\s:='\"(\[]{0,4}(?:is |was |of |error:? |code:? ){0,2}([1-5]\d\d)\b"
    rf"|\b([45]\d\d)\b[\s:'\"-]{{1,3}}(?:{_STATUS_PHRASES}|(?:client|server) error)",
    re.IGNORECASE,
)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then what it was raised from: by `raise … from`, or inside an `except`."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(found))
        yield found
        cause = found.__cause__
        found = found.__context__ if cause is None and not found.__suppress_context__ else cause


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of an HTTP library."""
    response = getattr(error, "response", None)
    for owner, names in ((response, ("status_code", "status")), (error, ("status_code", "status", "code"))):
        for name in names:
            status = getattr(owner, name, None)
            if isinstance(status, int) and 100 <= status <= 599:
                return status
    return None


def status_in(message: str) -> int | None:
    """Return the HTTP status that a message names, as in `HTTP 503` or `404 Not Found`."""
    found = _STATUS_IN_TEXT.search(message[:MAX_SEARCHED])
    return int(found[1] or found[2]) if found else None


def is_rejection(error: BaseException, status: int | None) -> bool:
    """Return whether the other side works and rejects what it was sent, as malformed or unknown."""
    if status is not None and 400 <= status < 500 and status not in (401, 402, 403, 407, 408, 425, 429):
        return True
    return bool(_REJECTIONS.match(error_code(error)))


def names_missing_schema(message: str) -> bool:
    """Return whether a database says that a table or column is missing: it works, and the program is wrong."""
    return _MISSING_SCHEMA.search(message[:MAX_SEARCHED]) is not None


def meaning_of(message: str) -> Classified:
    """Return what the words of a message mean, for an error that says nothing else."""
    text = message[:MAX_SEARCHED]
    for pattern, meaning in _MEANINGS:
        if pattern.search(text):
            return meaning
    return PLAIN


def error_code(error: BaseException) -> str:
    """Return the code by which its library tells failures apart, as `grpc UNAVAILABLE`; empty if there is none."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's ClientError
        details = response.get("Error")
        code = details.get("Code") if isinstance(details, dict) else None
        if isinstance(code, str | int):
            return f"aws {code}"
    smtp = getattr(error, "smtp_code", None)
    if isinstance(smtp, int):
        return f"smtp {smtp}"
    for name in ("sqlstate", "pgcode"):  # psycopg and asyncpg, psycopg2
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state) == 5:
            return f"sqlstate {state}"
    sqlite = getattr(error, "sqlite_errorname", None)
    if isinstance(sqlite, str):
        return f"sqlite {sqlite}"
    names = {cls.__name__ for cls in type(error).__mro__}
    first = error.args[0] if error.args else None
    if names & {"MySQLError", "OperationalError"} and isinstance(first, int):
        return f"mysql {first}"
    if any("Rpc" in name for name in names) and callable(code := getattr(error, "code", None)):
        return f"grpc {getattr(found, 'name', found)}" if (found := _called(code)) is not None else ""
    if isinstance(error, OSError) and error.errno is not None:
        return f"errno {errno.errorcode.get(error.errno, error.errno)}"
    body = getattr(error, "code", None)
    return f"code {body}" if isinstance(body, str) and 2 < len(body) < 60 else ""  # openai and its like


def _called(method: Any) -> object:
    try:
        found: object = method()
    except Exception:  # another library's method, called without knowing what it needs
        return None
    return found


def classify_code(code: str, message: str) -> Classified | None:
    """Return the meaning of a code of `error_code`; None: it says nothing."""
    system, _, value = code.partition(" ")
    match system:
        case "aws" | "code":
            if value == "insufficient_quota":
                return NO_CREDIT
            if value == "RequestTimeTooSkewed":
                return WRONG_CLOCK
            return RATE_LIMITED if value in _THROTTLED else KEY_REFUSED if value in _REFUSED else None
        case "grpc":
            return _GRPC.get(value)
        case "smtp":
            return _classify_smtp(int(value), message)
        case "sqlstate":
            fitting = [prefix for prefix in _SQLSTATES if value.startswith(prefix)]
            return _SQLSTATES[max(fitting, key=len)] if fitting else None
        case "sqlite":
            busy = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_NOMEM")
            return BUSY if value.startswith(busy) else PLAIN if value == "SQLITE_ERROR" else None
        case "mysql":
            return _MYSQL.get(int(value)) if value.isdecimal() else None
        case "errno":
            number = getattr(errno, value, None)
            return _ERRNOS.get(number) if number is not None else None
    return None


def _classify_smtp(status: int, message: str) -> Classified:
    if status in (530, 534, 535, 538):
        return KEY_REFUSED
    if _SENDER_REFUSED.search(message):
        return refused("The mail server refuses us as a sender: see what its answer says, and ask to be let in.")
    if 400 <= status < 500:
        # 4.7.x: refused by policy for now, which is how mail servers limit rates; 421 and 45x alike.
        limited = re.search(r"\b4\.7\.\d|too many|rate|throttl|slow|limit", message, re.IGNORECASE)
        return RATE_LIMITED if limited else UNAVAILABLE
    return PERMANENT if 500 <= status < 600 else UNAVAILABLE
