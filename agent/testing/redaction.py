"""What of a provider's traffic may be written down: everything but secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

HIDDEN = "***"

# Shorter ones are placeholders ("x" for a local server), and replacing them would tear texts apart.
_SHORTEST = 6
_SECRET_HEADERS = re.compile(r"authorization|cookie|token|secret|(?:^|-)key", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(
    r"(?:api[_-]?key|key|(?:access_|auth_|refresh_)?token|client_secret|secret|password|sig(?:nature)?)\Z",
    re.IGNORECASE,
)
# Members of a JSON body that hold credentials, say of an MCP server the provider is to call.
_SECRET_MEMBER = re.compile(
    r'("(?:x-)?(?:api[_-]?key|authorization(?:_token)?|access_token|refresh_token|client_secret|password)"\s*:\s*")'
    r'((?:\\.|[^"\\])*)"',
    re.IGNORECASE,
)
# Keys by their shape: OpenAI and Anthropic, Google, GitHub, AWS, Slack. Opaque data of providers is base64,
# in which such a shape may occur by chance, but not at the beginning of a word.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?:sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{10,})"
)
_KEPT_HEADERS = re.compile(
    r"content-type|retry-after(?:-ms)?|x-should-retry|(?:x-)?request-id|(?:[a-z]+-)?ratelimit-.*|x-ratelimit-.*"
)


class Redactor:
    """Replaces secrets: those given, those it learns from requests, and what looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._add(secrets)

    def learn(self, headers: Mapping[str, str], url: str) -> None:
        """Take the credentials of a request for what they are wherever else they occur."""
        values = [value for name, value in headers.items() if _SECRET_HEADERS.search(name)]
        self._add(value.partition(" ")[2] for value in values)
        self._add(values)
        self._add(v for name, v in parse_qsl(urlsplit(url).query) if _SECRET_IN_QUERY.match(name))

    def url(self, url: str) -> str:
        """The address without user, password and the secrets of its query."""
        parts = urlsplit(url)
        query = [(k, HIDDEN if _SECRET_IN_QUERY.match(k) else v) for k, v in parse_qsl(parts.query, True)]
        place = parts.netloc.rpartition("@")[2]
        return self.text(urlunsplit((parts.scheme, place, parts.path, urlencode(query, safe="*:"), "")))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Those headers of a response that tell something to a client, by their lower-case names."""
        lower = {name.lower(): value for name, value in headers.items()}
        return {name: self.text(value) for name, value in lower.items() if _KEPT_HEADERS.fullmatch(name)}

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return _SHAPES.sub(HIDDEN, text)

    def request_body(self, text: str) -> str:
        """The body of a request without secrets and without what members hold that are named like one."""
        return _SECRET_MEMBER.sub(rf'\g<1>{HIDDEN}"', self.text(text))

    def _add(self, secrets: Iterable[str]) -> None:
        for secret in filter(lambda s: len(s) >= _SHORTEST, secrets):
            self._secrets |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
