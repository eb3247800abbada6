"""The exception for a failed request, and the text of error responses."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agent.errors import AgentError
from agent.retry import ABORTED_TEXT, NO_SERVER, ErrorClass, ErrorKind

# A shorter message ("Bad Request") is followed by the body.
_SHORT = 20
_PAGE = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]*)</title>", re.IGNORECASE)
SECRET_HEADERS = frozenset(
    ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
)


class ProviderError(AgentError):
    """A request failed, or its stream broke. The text may be shown: it contains no secret.

    A stream function turns it into its last event. `aborted`: the cancel token was set. `status`: of the
    response, None without a response or after the stream began. `classified`: the kind of failure.
    """

    def __init__(self, text: str, classified: ErrorClass, status: int | None = None) -> None:
        super().__init__(text)
        self.classified = classified
        self.status = status

    @property
    def kind(self) -> ErrorKind:
        return self.classified.kind

    @property
    def aborted(self) -> bool:
        return self.classified.kind == "aborted"

    @property
    def retryable(self) -> bool:
        return self.classified.retryable

    @property
    def retry_after(self) -> float:
        return self.classified.retry_after


def aborted() -> ProviderError:
    """The error of a cancelled request."""
    return ProviderError(ABORTED_TEXT, ErrorClass("aborted"))


def response_text(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """`<status> <message> (request-id: ...)` of an error response and the read part of its body."""
    raw = body.decode("utf-8", "replace").strip()
    error = _error_object(raw)
    page = _PAGE.match(raw) is not None
    title = page_title(raw).removeprefix(str(status)).strip() if page else ""
    message = _message(error) or title or ("(a web page)" if page else raw)
    text = f"{status} {message or _redirect(status, headers) or '(no body)'}"
    if request_id := headers.get("x-request-id") or headers.get("request-id"):
        text += f" (request-id: {request_id})"
    if raw and not page and len(message) < _SHORT and message != raw:
        text += f"\n{raw}"
    elif upstream := _upstream(error):
        text += f"\n{upstream}"
    return text


def page_title(page: str) -> str:
    """The title of a web page, on one line; empty when it has none."""
    found = _TITLE.search(page)
    return " ".join(html.unescape(found[1]).split()) if found else ""


def is_loopback(url: str) -> bool:
    """True for the address of a server on this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def no_server_text(url: str, provider: str) -> str:
    """The text for a server on this machine that does not run: its address, and what to do."""
    parts = urlsplit(url)
    start = " (ollama serve)" if provider == "ollama" else ""
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return f"{NO_SERVER}{address}: start the server{start}, or give another base URL (--base-url)"


def _error_object(raw: str) -> Any:
    """The `error` member of a JSON body, or the whole body without one; None for a body that is not JSON."""
    try:
        data = json.loads(raw)
    except ValueError:
        return None
    if isinstance(data, list) and data:  # Google wraps an error in a list
        data = data[0]
    return (data.get("error") or data) if isinstance(data, dict) else None


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return message.strip() if isinstance(message, str) else ""


def _upstream(error: Any) -> str:
    """The message of the provider behind a router (OpenRouter: `error.metadata.raw`)."""
    metadata = error.get("metadata") if isinstance(error, dict) else None
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return raw if isinstance(raw, str) else ""


def _redirect(status: int, headers: Mapping[str, str]) -> str:
    target = headers.get("location")
    return f"redirected to {target}: set this as the base URL" if target and 300 <= status < 400 else ""


def secrets_of(headers: Mapping[str, str]) -> list[str]:
    """The credentials among request headers."""
    values = [value for name, value in headers.items() if name.lower() in SECRET_HEADERS]
    return values + [value.partition(" ")[2] for value in values]
