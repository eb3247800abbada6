"""Removes secrets from the traffic of providers before it is stored.

Bodies are decoded first: what stands in JSON text may be hidden by escapes, and a key in a streamed answer is
cut into several deltas. An answer that holds no secret stays as it is, byte for byte.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

HIDDEN = "***"

# Shorter values are placeholders ("x" for a local server); replacing them would destroy texts.
_MIN_LENGTH = 6
# Strings in strings: arguments are JSON text in JSON, and may hold JSON text themselves.
_MAX_NESTING = 4

# Shapes of keys; `agent_tools.process.secrets` has the same ones. Opaque data of providers is base64, in
# which such a shape may occur by chance, but not at the beginning of a word.
_SHAPE = r"""(?:
    sk-[A-Za-z0-9_-]{16,}                                      # OpenAI, Anthropic, OpenRouter, ...
  | AIza[A-Za-z0-9_-]{30,}                                     # Google
  | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{22,}  # GitHub
  | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])                   # AWS
  | xox[abeprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}     # Slack
  | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/=]{16,}  # Stripe
  | gl(?:pat|ptt|dt|rt|cbt|ft|soat)-[A-Za-z0-9_.-]{16,}        # GitLab
  | hf_[A-Za-z0-9]{30,}                                        # Hugging Face
  | npm_[A-Za-z0-9]{36}                                        # npm
  | pypi-[A-Za-z0-9_-]{50,}                                    # PyPI
  | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}                 # SendGrid
  | (?:xai|pplx|nvapi|tvly)-[A-Za-z0-9_-]{20,}                 # xAI, Perplexity, NVIDIA, Tavily
  | gsk_[A-Za-z0-9]{20,}                                       # Groq
  | do[oprt]_v1_[a-f0-9]{40,}                                  # DigitalOcean
  | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]* # JWT
)"""
_PEM = r"""
    -----BEGIN[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY-----
    (?:(?:\s|\\+[nr])*[A-Za-z-]+:[ ][^\n\\]*)*  # headers
    (?:[A-Za-z0-9+/=\s]|\\+[nr])*
    (?:-----END[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY-----)?
"""
_PASSWORD = r"(?<=://)[^\s/:@\"']*:[^\s/@\"']+(?=@)"
_SECRETS = re.compile(rf"(?x) (?<![A-Za-z0-9_-]){_SHAPE} | {_PEM} | {_PASSWORD}")
# In text that could not be decoded a key may stand behind an escape, whose letter ends no word.
_ESCAPED_SECRETS = re.compile(
    r"(?x) (?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrtv0])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    rf"|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
    rf" {_SHAPE} | {_PEM} | {_PASSWORD}"
)

_SECRET_HEADERS = re.compile(r"authorization|cookie|token|secret|(?:^|-)key", re.IGNORECASE)
_KEPT_HEADERS = re.compile(
    r"content-type|retry-after(?:-ms)?|x-should-retry|(?:x-)?request-id|(?:[a-z]+-)?ratelimit-.*|x-ratelimit-.*"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Members and parameters with these names hold secrets, whatever words come before the last.
_SECRET_LAST = frozenset(
    """
    apikey authorization cookie credential credentials jwt passphrase passwd password passwords pwd secret
    secrets sig token
    """.split()
)
_SECRET_KEYS = frozenset(
    "access account api app auth client encryption license master private secret service signing".split()
)
_HARMLESS_TOKENS = frozenset("continuation cursor next page sync".split())
# A member in JSON text that is not complete, as the arguments of a call are while they stream.
_MEMBER = re.compile(r'"(?P<name>(?:[^"\\]|\\.){1,100})"\s*:\s*"(?P<value>(?:[^"\\]|\\.)*)(?:"|\\?\Z)')
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")

Span = tuple[int, int]


def is_secret_name(name: str) -> bool:
    """Whether a member of a JSON body or a parameter of an address is named like a credential."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    before, last = words[-2] if len(words) > 1 else "", words[-1]
    if last == "token":
        return before not in _HARMLESS_TOKENS
    return last in _SECRET_LAST or (last == "key" and before in _SECRET_KEYS)


class Redactor:
    """Replaces secrets with `***`: given ones, those of requests, and what looks like one.

    Threads: any; `_lock` guards the known secrets.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self._add(secrets)

    def learn(self, headers: Mapping[str, str], url: str) -> None:
        """Remember the credentials of a request, to replace them wherever they occur."""
        values = [value for name, value in headers.items() if _SECRET_HEADERS.search(name)]
        self._add(value.partition(" ")[2] for value in values)
        self._add(values)
        self._add(value for name, value in parse_qsl(urlsplit(url).query) if _is_secret_parameter(name))

    def url(self, url: str) -> str:
        """Return the address without user, password and the secrets of its query."""
        parts = urlsplit(url)
        query = [
            (name, HIDDEN if _is_secret_parameter(name) else value)
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        ]
        host = parts.netloc.rpartition("@")[2]
        return self.text(urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe="*:"), "")))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a response that a client uses, with lower-case names."""
        lower = {name.lower(): value for name, value in headers.items()}
        return {name: self.text(value) for name, value in lower.items() if _KEPT_HEADERS.fullmatch(name)}

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return _replace(text, self._spans(text))

    def value(self, value: object) -> Any:
        """Return a JSON value without secrets in its strings and in members named like a credential."""
        return self._clean(value, self._clean_string)

    def request_body(self, text: str) -> Any:
        """Return the body of a request without secrets: decoded JSON, or the text when it is no JSON."""
        try:
            decoded = json.loads(text)
        except (ValueError, RecursionError):
            return self._raw_text(text)
        return self.value(decoded)

    def answer(self, text: str) -> str:
        """Return the body of an answer without secrets: JSON, lines of JSON, server-sent events, any text."""
        decoded = _decode(text)
        if isinstance(decoded, list):  # a stream of Gemini
            events = [_Event("", item) for item in decoded]
            self._clean_events(events)
            is_changed = any(event.is_changed for event in events)
            return _encode([event.data for event in events]) if is_changed else text
        events = [_Event("", decoded)] if decoded is not None else list(map(_event, _LINE.findall(text)))
        if not any(event.data is not None for event in events):
            return self._raw_text(text)
        self._clean_events(events)
        return (
            "".join(event.encode() for event in events) if any(event.is_changed for event in events) else text
        )

    def places(self, value: object, name: str) -> list[str]:
        """Return the places in a JSON value where a secret is left, such as `body.messages[0].content`."""
        return list(_differences(value, self.value(value), name))

    # Values

    def _clean(
        self, value: object, string: Callable[[str], str], name: str = "", siblings: Container[object] = ()
    ) -> object:
        if isinstance(value, str):
            return HIDDEN if value and _is_secret_member(name, siblings) else string(value)
        if isinstance(value, list):
            return [
                self._clean(item, string, name if isinstance(item, str) else "", siblings) for item in value
            ]
        if isinstance(value, dict):
            return {self.text(key): self._clean(item, string, key, value) for key, item in value.items()}
        return value

    def _clean_string(self, text: str, nesting: int = 0) -> str:
        """Clean a decoded string; one that is JSON text itself is decoded and encoded again if it changes."""
        decoded = _decode(text) if nesting < _MAX_NESTING else None
        if decoded is None:
            return self._with_members(text)
        clean = self._clean(decoded, lambda inner: self._clean_string(inner, nesting + 1))
        return text if clean == decoded else _encode(clean)

    def _with_members(self, text: str) -> str:
        return _replace(text, [*self._spans(text), *_member_spans(text)])

    def _raw_text(self, text: str) -> str:
        return _replace(text, [*self._spans(text, _ESCAPED_SECRETS), *_member_spans(text)])

    def _spans(self, text: str, pattern: re.Pattern[str] = _SECRETS) -> list[Span]:
        spans = [found.span() for found in pattern.finditer(text)]
        if self._known is not None:
            spans += [found.span() for found in self._known.finditer(text)]
        return spans

    # Server-sent events

    def _clean_events(self, events: list[_Event]) -> None:
        strands: dict[tuple[object, ...], _Strand] = {}
        for event in events:
            for piece in _pieces(event):
                strands.setdefault(piece.key, _Strand()).add(piece)
        for strand in strands.values():
            strand.redact(self._strand_spans)
        # After the strands: a piece of a key may look like a whole one.
        for event in events:
            if event.data is None:
                line = self._raw_text(event.line)
                event.is_changed, event.line = line != event.line, line
            elif (clean := self.value(event.data)) != event.data:
                event.data, event.is_changed = clean, True

    def _strand_spans(self, text: str) -> list[Span]:
        spans = [*self._spans(text, _ESCAPED_SECRETS), *_member_spans(text)]
        decoded = _decode(text)
        # Arguments are JSON text: what is found in its decoded strings is looked up in the encoded text.
        for secret in set(self._found_in(decoded)) if decoded is not None else ():
            for encoded in _encodings(secret):
                spans += [found.span() for found in re.finditer(re.escape(encoded), text)]
        return spans

    def _found_in(self, value: object, nesting: int = 0) -> Iterator[str]:
        if isinstance(value, str):
            yield from (value[start:end] for start, end in self._spans(value))
            inner = _decode(value) if nesting < _MAX_NESTING else None
            if inner is not None:
                yield from self._found_in(inner, nesting + 1)
        elif isinstance(value, (list, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self._found_in(item, nesting)

    def _add(self, secrets: Iterable[str]) -> None:
        new = {form for secret in secrets if len(secret) >= _MIN_LENGTH for form in _encodings(secret)}
        with self._lock:
            if new - self._secrets:
                self._secrets |= new
                longest_first = sorted(self._secrets, key=len, reverse=True)
                self._known = re.compile("|".join(map(re.escape, longest_first)))


@dataclass(slots=True)
class _Event:
    """A line of an event stream; `data` is its decoded JSON, None when it has none."""

    line: str
    data: object = None
    is_changed: bool = False

    def encode(self) -> str:
        if not self.is_changed or self.data is None:
            return self.line
        start = "data: " if self.line.startswith("data:") else ""
        end = self.line[len(self.line.rstrip("\r\n")) :]
        return f"{start}{_encode(self.data)}{end}"


def _event(line: str) -> _Event:
    return _Event(line, _decode(line.removeprefix("data:")))


@dataclass(slots=True)
class _Piece:
    """A string in an event: its holder and place there, and the key of the pieces it continues."""

    key: tuple[object, ...]
    event: _Event
    holder: Any
    place: Any

    @property
    def text(self) -> str:
        text: str = self.holder[self.place]
        return text


@dataclass(slots=True)
class _Strand:
    """The strings at one place of consecutive events, which make one text."""

    pieces: list[_Piece] = field(default_factory=list)

    def add(self, piece: _Piece) -> None:
        self.pieces.append(piece)

    def redact(self, find: Callable[[str], list[Span]]) -> None:
        """Replace what `find` finds in the joined text, in the piece where it begins."""
        spans = deque(_merged(find("".join(piece.text for piece in self.pieces))))
        start = 0
        for piece in self.pieces:
            if not spans:
                break
            text, position, kept = piece.text, 0, ""
            end = start + len(text)
            while spans and spans[0][0] < end:
                first, last = spans[0]
                kept += text[position : max(first - start, 0)] + (HIDDEN if first >= start else "")
                position = min(last, end) - start
                if last > end:  # it goes on in the next piece
                    break
                spans.popleft()
            if position:
                piece.holder[piece.place] = kept + text[position:]
                piece.event.is_changed = True
            start = end


_IDENTITY = ("index", "item_id", "output_index", "content_index", "summary_index", "type")


def _pieces(event: _Event) -> Iterator[_Piece]:
    """Yield the strings of an event, with keys that are equal for the deltas of one text."""

    def walk(value: dict[Any, object] | list[object], key: tuple[object, ...]) -> Iterator[_Piece]:
        if isinstance(value, dict):
            inner = (*key, *(str(value.get(name)) for name in _IDENTITY))
            items: Iterable[tuple[object, object]] = value.items()
        else:
            inner, items = key, enumerate(value)
        for place, item in items:
            if isinstance(item, str):
                yield _Piece((*inner, place), event, value, place)
            elif isinstance(item, (dict, list)):
                yield from walk(item, (*inner, place))

    if isinstance(event.data, (dict, list)):
        yield from walk(event.data, ())


def _is_secret_parameter(name: str) -> bool:
    return name.lower() in ("key", "signature") or is_secret_name(name)


def _is_secret_member(name: str, siblings: Container[object]) -> bool:
    # Log probabilities list `token` beside `logprob`: a piece of the answer.
    return is_secret_name(name) and not (name == "token" and "logprob" in siblings)


def _member_spans(text: str) -> list[Span]:
    if '"' not in text:
        return []
    return [
        found.span("value")
        for found in _MEMBER.finditer(text)
        if found["value"] and found["value"] != HIDDEN and is_secret_name(found["name"])
    ]


def _decode(text: str) -> object:
    """Decode JSON text of an object or an array; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _encode(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        return json.dumps(value)
    return text


def _encodings(secret: str) -> set[str]:
    """The forms a secret takes in addresses, in JSON text and in JSON text that JSON text holds."""
    once = json.dumps(secret)[1:-1]
    return {secret, quote(secret, safe=""), once, json.dumps(once)[1:-1]}


def _differences(before: object, after: object, place: str) -> Iterator[str]:
    """Yield the places where two JSON values of the same form differ."""
    if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
        for name, item in before.items():
            yield from _differences(item, after[name], f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif before != after:
        yield place


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replace(text: str, spans: Iterable[Span]) -> str:
    parts, position = [], 0
    for start, end in _merged(spans):
        parts += [text[position:start], HIDDEN]
        position = end
    return "".join([*parts, text[position:]])
