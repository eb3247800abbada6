"""What kind of failure is it, is it worth another try, and after how long: pure decisions.

Nothing here waits, reads a clock or touches the network. Failures are judged by status and headers where
a response exists (`classify_error`), and by their text everywhere else, because the text is all that a
stored message, another layer or another provider hands on. Our transport therefore words its failures so
that these patterns recognise them (`connection reset by peer: ...`, `i/o timeout: ...`).

Order of judgement: quota, rate limit, context overflow, then the rest. A quota that is used up comes back
as a 429 like any rate limit but no wait helps; a 429 may quote the context length without being
an overflow; an overflow may hide under a 400, a 401 or a 413.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Protocol

from agent.errors import ConfigurationError

ErrorKind = Literal[
    "rate_limit",
    "overloaded",
    "server",
    "network",
    "auth",
    "quota",
    "context_overflow",
    "request_too_large",
    "invalid",
    "aborted",
    "unknown",
]

NO_SERVER = "nothing answers at "
"""How the text begins when no server of this machine listens: another try at once would fail too."""

ABORTED_TEXT = "Request was aborted"
"""The text of a request that was cancelled, whatever phase it was in."""


def after_attempts(text: str, attempts: int) -> str:
    """The text of a failure that was tried `attempts` times: the layers above do not try it again.

    Otherwise their numbers of attempts would multiply.
    """
    return f"{text} (gave up after {attempts} attempts)" if attempts > 1 else text


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and after which waits (seconds) each layer tries again; the length is the number of retries.

    `auto_resume`: a stream that broke is taken up again. `mid_tool_call`: a stream that broke inside a tool
    call is asked again. `side_query`: a question on the side. `request`: one HTTP request before its first
    event. `busy`: further waits, after those of `request`, when a server limits the rate, is overloaded or
    failed (429, 5xx). Any sequence of finite numbers >= 0 is taken, stored as a tuple; an empty one switches
    the layer off. Anything else raises `ConfigurationError`.
    """

    auto_resume: Sequence[float] = (0.5, 1.5, 4.0)
    mid_tool_call: Sequence[float] = (0.25, 0.75, 2.0)
    side_query: Sequence[float] = (0.3, 1.0)
    request: Sequence[float] = (0.5, 1.0, 2.0, 4.0)
    busy: Sequence[float] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _waits(field.name, getattr(self, field.name)))


def _waits(name: str, value: object) -> tuple[float, ...]:
    if isinstance(value, list | tuple) and all(_is_wait(item) for item in value):
        return tuple(value)
    raise ConfigurationError(f"RetryPolicy.{name} must be a tuple of seconds >= 0, got {value!r}")


def _is_wait(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """A failure: its kind, whether the same request may succeed later, the seconds to wait (0: unknown)."""

    kind: ErrorKind
    retryable: bool = False
    retry_after: float = 0.0


# --- texts -----------------------------------------------------------------------------------------


def _pattern(*alternatives: str) -> Callable[[str], bool]:
    search = re.compile("|".join(alternatives), re.IGNORECASE | re.ASCII).search
    return lambda text: search(text) is not None


def _number(*codes: int) -> str:
    """Any of `codes` standing alone: `HTTP 529` counts, `529x`, `1429` and `_429` do not."""
    return rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(str, codes))})(?![A-Za-z0-9_])"


_RATE_LIMIT_WORDS = (
    r"rate[_\s-]?limit",
    r"resource\s+exhausted",
    r"quota\s+exceeded",
    r"usage\s+limit\s+reached",
    r"too\s+many\s+requests",
    r"tokens\s+per\s+min",
)
_says_rate_limit = _pattern(*_RATE_LIMIT_WORDS)
_says_overloaded = _pattern("overloaded")
_has_rate_limit_number = _pattern(_number(429))
_has_overload_number = _pattern(_number(529))

# `server_error` is OpenAI's code for a failure of its own, in streams that began well.
_is_server = _pattern(
    r"internal\s+server\s+error", r"(?<![A-Za-z0-9_])server_error(?![A-Za-z0-9_])", _number(502, 503, 504)
)
_is_network = _pattern(
    r"connection\s+reset\s+by\s+peer",
    r"broken\s+pipe",
    r"connection\s+refused",
    r"connection\s+timed\s+out",
    r"no\s+such\s+host",
    r"network\s+is\s+unreachable",
    r"tls\s+handshake\s+timeout",
    r"i/o\s+timeout",
    r"unexpected\s+EOF",
    r"stream\s+error.*INTERNAL_ERROR",
    r"http2:\s+server\s+sent\s+GOAWAY",
    r"use\s+of\s+closed\s+network\s+connection",
    r"(?<![A-Za-z])EOF\s*\Z",
)
_ends_early = _pattern(
    r"stream\s+ended\s+before\s+message_stop",
    r"stream\s+ended\s+without\s+result",
    r"stream\s+ended\s+unexpectedly",
    r"MALFORMED_(?:FUNCTION_CALL|RESPONSE)",  # Gemini lost its way; asked again it mostly finds it
)

_is_quota = _pattern(
    # "for metric" is how Google words a limit per minute; that one is judged below.
    r"quota\s+exceeded(?!\s+for\s+(?:quota\s+)?metric)",
    r"usage\s+limit\s+reached",
    r"insufficient_quota",
    r"credit\s+balance\s+is\s+too\s+low",
    r"billing_hard_limit_reached",
    r"more\s+than\s+max_retry_delay",  # our own words for a server that asks for too long a wait
)
_is_quota_or_minute = _pattern(r"exceeded\s+your\s+current\s+quota", r"quota\s+exceeded")
_is_per_day = _pattern(r"per[\s_-]?day", r"perday")

_is_auth = _pattern(
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    r"invalid\s+api\s+key",
    "unauthorized",
    r"^40[13](?![A-Za-z0-9_])",
)
_is_invalid = _pattern("invalid_request_error", r"^4\d\d(?![A-Za-z0-9_])")
_is_too_large = _pattern(
    "request_too_large",
    r"(?:payload|request\s+entity|request\s+body)\s+(?:is\s+)?too\s+large",
    r"request\s+(?:size\s+)?exceeds\s+the\s+maximum\s+size",
    r"\b(?:image|file|document|pdf|attachment|payload|body)\b[^\n]{0,120}"
    r"(?:exceeds?|larger\s+than|too\s+large)[^\n]{0,120}(?:\d\s*(?:bytes|[kmg]i?b\b)|pixels|dimension)",
)
_is_aborted = _pattern(re.escape(ABORTED_TEXT))
_gave_up = _pattern(r"\(gave\s+up\s+after\s+\d+\s+attempts\)")

# One line per wording that some provider or server uses; the words are theirs.
_OVERFLOW = (
    r"prompt\s+is\s+too\s+long",
    r"input\s+is\s+too\s+long\s+for\s+requested\s+model",
    r"exceeds?\s+(?:the|this)\s+(?:model.?s\s+)?(?:available\s+|maximum\s+)?context\s+(?:window|size|length|limit)",
    r"exceeds?\s+(?:the\s+)?context\s+(?:window|size|length|limit)",
    r"input\s+token\s+count.*exceeds\s+the\s+maximum",
    r"maximum\s+prompt\s+length\s+is\s+\d+",
    r"reduce\s+the\s+length\s+of\s+the\s+messages",
    r"maximum\s+context\s+length\s+is\s+\d+\s+tokens",
    r"exceeds\s+the\s+limit\s+of\s+\d+",
    r"greater\s+than\s+the\s+context\s+length",
    r"context\s+window\s+exceeds\s+limit",
    r"exceeded\s+model\s+token\s+limit",
    r"too\s+large\s+for\s+model\s+with\s+\d+\s+maximum\s+context\s+length",
    r"prompt\s+too\s+long;\s+exceeded\s+(?:max\s+)?context\s+length",
    r"model_context_window_exceeded",
    r"context[_\s]length[_\s]exceeded",
    r"too\s+many\s+tokens",
    r"token\s+limit\s+exceeded",
    r"supports\s+only\s+\d+\s*[km]?\s+(?:tokens?\s+(?:of\s+)?)?context",
    r"^4(?:00|13)\s*(?:status\s+code)?\s*\(no\s+body\)",
)
_says_overflow = _pattern(*_OVERFLOW)
_is_no_overflow = _pattern(
    r"^(?:Throttling\s+error|Service\s+unavailable):",
    r"^(?:429|5\d\d)(?![A-Za-z0-9_])",  # our texts begin with the status, and the status goes first
)


def is_rate_limit(text: str) -> bool:
    """True when the text reports a rate limit, a used-up quota or an overloaded server."""
    return (
        _says_rate_limit(text)
        or _says_overloaded(text)
        or _has_rate_limit_number(text)
        or _has_overload_number(text)
    )


def is_transient_server(text: str) -> bool:
    """True for a server that failed for the moment: 502, 503, 504, `internal server error`; no bare 500."""
    return _is_server(text)


def is_transient_network(text: str) -> bool:
    """True when the connection failed, not the request."""
    return _is_network(text)


def is_retryable(text: str) -> bool:
    """True when the same request may succeed a little later and was not retried yet."""
    if is_final(text) or _gave_up(text):
        return False
    return is_rate_limit(text) or is_transient_server(text) or is_transient_network(text)


def is_resumable(text: str) -> bool:
    """True when a stream broke on its way, so that the answer may be taken up again.

    Rate limits and server errors are not: they are refusals, and were retried before the stream began. Nor
    is a connection that did not come about in several attempts.
    """
    if _gave_up(text):
        return False
    return is_transient_network(text) or _ends_early(text)


def is_final(text: str) -> bool:
    """True for a quota or usage limit that is used up: no layer tries again.

    Google words a limit per minute like a used-up quota; it counts as final unless the text names a delay
    and does not speak of a day.
    """
    if _is_quota(text):
        return True
    return _is_quota_or_minute(text) and (not retry_after_from_text(text) or _is_per_day(text))


def is_overflow_text(text: str) -> bool:
    """True when the text reports that the input does not fit the model's context window.

    A body or an image over a limit in bytes is something else: shortening the history need not cure it.
    """
    return _says_overflow(text) and not (
        _says_rate_limit(text) or _is_no_overflow(text) or _is_too_large(text)
    )


class _Counts(Protocol):
    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cache_read(self) -> int: ...


class _Message(Protocol):
    @property
    def stop_reason(self) -> str: ...
    @property
    def error_message(self) -> str: ...
    @property
    def usage(self) -> _Counts: ...


def is_context_overflow(message: _Message | None, context_window: int = 0) -> bool:
    """True when this answer shows that the context did not fit.

    Either the error text says so, or, with the window (tokens) known: more input than the window holds was
    taken without complaint, or input filled 99 % of it and nothing came out.
    """
    if message is None:
        return False
    if message.stop_reason == "error":
        return is_overflow_text(message.error_message)
    if context_window <= 0:
        return False
    taken = message.usage.input + message.usage.cache_read
    if message.stop_reason == "stop":
        return taken > context_window
    return message.stop_reason == "length" and message.usage.output == 0 and taken >= 0.99 * context_window


# --- delays ----------------------------------------------------------------------------------------

_CLOCK = r"(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)s"
_AMOUNT = r"(\d+(?:\.\d+)?)(ms|s)"
_RESET_AFTER = re.compile(rf"reset\s+after\s+{_CLOCK}", re.IGNORECASE | re.ASCII)
_AMOUNTS = (
    re.compile(rf"retry\s+(?:in|after)\s+{_AMOUNT}", re.IGNORECASE | re.ASCII),
    re.compile(rf"try\s+again\s+in\s+{_AMOUNT}", re.IGNORECASE | re.ASCII),
    re.compile(rf'"retryDelay"\s*:\s*"{_AMOUNT}"', re.IGNORECASE | re.ASCII),
)
_TRY_AGAIN_CLOCK = re.compile(rf"try\s+again\s+in\s+{_CLOCK}", re.IGNORECASE | re.ASCII)


def retry_after_from_text(text: str) -> float:
    """The delay a server asks for in its message, in seconds; 0 when it names none.

    `reset after 1h2m3.5s` (the seconds are needed), `retry in 1.5s`, `retry after 2000ms`, `try again in 20s`
    or `6m0s`, `"retryDelay": "10s"`; the first of these, in this order, counts.
    """
    if delay := _clock(_RESET_AFTER.search(text)):
        return delay
    for pattern in _AMOUNTS:
        if found := pattern.search(text):
            return float(found[1]) / (1000 if found[2].lower() == "ms" else 1)
    return _clock(_TRY_AGAIN_CLOCK.search(text))


def _clock(found: re.Match[str] | None) -> float:
    if found is None:
        return 0.0
    hours, minutes, seconds = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)


# Unix times in milliseconds are beyond this, those in seconds will be for 3000 years.
_MILLISECONDS_FROM = 1e11


def retry_after_from_headers(headers: Mapping[str, str], now: float | None = None) -> float:
    """The delay that response headers ask for, in seconds; 0 when they name none or it has passed.

    In this order: `retry-after-ms`, `retry-after` (seconds or a date), `x-ratelimit-reset` (Unix time),
    `x-ratelimit-reset-after` (seconds). `now` is the Unix time that dates are measured from; without it the
    response's own `date` header serves, which no wrong clock can disturb.
    """
    found = {name.lower(): value for name, value in headers.items()}
    if now is None:
        now = _date(found.get("date", ""))
    delays = (
        _float(found.get("retry-after-ms")) / 1000,
        _float(found.get("retry-after")),
        _until(_date(found.get("retry-after", "")), now),
        _until(_unix(found.get("x-ratelimit-reset")), now),
        _float(found.get("x-ratelimit-reset-after")),
    )
    return next((delay for delay in delays if delay > 0), 0.0)


def _float(value: str | None) -> float:
    try:
        number = float(value or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _unix(value: str | None) -> float:
    number = _float(value)
    return number / 1000 if number > _MILLISECONDS_FROM else number


def _date(value: str) -> float | None:
    import email.utils  # a third of what importing the package would cost, for a header that few servers send

    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until(moment: float | None, now: float | None) -> float:
    return moment - now if moment and now else 0.0


# --- the whole picture -----------------------------------------------------------------------------

_TEMPORARY: frozenset[ErrorKind] = frozenset({"rate_limit", "overloaded", "server", "network"})
_HOPELESS: frozenset[ErrorKind] = frozenset({"quota", "context_overflow", "aborted"})


def classify_error(
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    text: str = "",
    *,
    now: float | None = None,
) -> ErrorClass:
    """What a failed request is, from whatever is known of it; never raises.

    `text` is the server's message or the wording of a network failure. A status outranks numbers found in
    the text; the words of a quota, a rate limit or an overflow outrank the status. `x-should-retry` decides
    on a retry where the kind leaves hope. `now`: see `retry_after_from_headers`.
    """
    headers = headers or {}
    kind = _kind(status, text)
    retryable = kind in _TEMPORARY
    wish = next((v.strip().lower() for k, v in headers.items() if k.lower() == "x-should-retry"), "")
    if kind not in _HOPELESS and wish in ("true", "false"):
        retryable = wish == "true"
    return ErrorClass(kind, retryable, retry_after_from_headers(headers, now) or retry_after_from_text(text))


def _kind(status: int | None, text: str) -> ErrorKind:
    if status is None or status < 300:  # no response, or one that failed after its head: the text decides
        return _kind_of_text(text)
    if is_final(text):
        return "quota"
    if status in (429, 529) or _says_rate_limit(text) or _says_overloaded(text):
        # Overloaded servers report it under any status; a 429 is a rate limit whatever its text.
        calm = status == 429 or (_says_rate_limit(text) and status != 529)
        return "rate_limit" if calm else "overloaded"
    if status >= 500 or status in (408, 409):
        return "server"
    if is_overflow_text(text):
        return "context_overflow"
    if status == 413 or _is_too_large(text):
        return "request_too_large"
    return "auth" if status in (401, 403) or _is_auth(text) else "invalid"


def _kind_of_text(text: str) -> ErrorKind:
    for kind, matches in _KINDS_OF_TEXT:
        if matches(text):
            return kind
    return "unknown"


_KINDS_OF_TEXT: tuple[tuple[ErrorKind, Callable[[str], bool]], ...] = (
    ("aborted", _is_aborted),
    ("quota", is_final),
    ("overloaded", lambda text: _has_overload_number(text) or _says_overloaded(text)),
    ("rate_limit", is_rate_limit),
    ("context_overflow", is_overflow_text),
    ("request_too_large", _is_too_large),
    ("server", is_transient_server),
    ("network", is_transient_network),
    ("auth", _is_auth),
    ("invalid", _is_invalid),
)
