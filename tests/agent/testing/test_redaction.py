"""FT-S10: no key is stored, whatever its shape and wherever it stands; the rest stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.testing.redaction import HIDDEN, Redactor, is_secret_name
from agent_tools.process.secrets import is_secret

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

SHAPES = {
    "openai": "sk-proj-" + LETTERS[:40],
    "anthropic": "sk-ant-api03-" + LETTERS[:30] + "-_AA",
    "google": "AIza" + "Sy" + LETTERS[:33],
    "github": "ghp_" + LETTERS[:36],
    "github-fine-grained": "github_pat_11" + LETTERS[:20] + "_" + LETTERS[:59],
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "aws-temporary": "ASIA" + "ABCDEFGHIJKLMNOP",
    "slack": "xoxb-123456789012-" + LETTERS[:24],
    "slack-app": "xapp-1-" + LETTERS[:20],
    "stripe": "sk_live_" + LETTERS[:24],
    "stripe-restricted": "rk_test_" + LETTERS[:24],
    "stripe-webhook": "whsec_" + LETTERS[:32],
    "gitlab": "glpat-" + LETTERS[:20],
    "huggingface": "hf_" + LETTERS[:34],
    "npm": "npm_" + LETTERS[:36],
    "pypi": "pypi-" + LETTERS + "-_",
    "sendgrid": "SG." + LETTERS[:22] + "." + LETTERS[:43],
    "xai": "xai-" + LETTERS[:40],
    "groq": "gsk_" + LETTERS[:52],
    "digitalocean": "dop_v1_" + "0123456789abcdef" * 4,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow"
    + LETTERS
    + "+/=\n"
    + LETTERS
    + "\n-----END RSA PRIVATE KEY-----",
    "pem-with-headers": (
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END EC PRIVATE KEY-----"
    ),
}

TEXTS: dict[str, str] = {
    "alone": "{}",
    "in words": "my key is {} keep it",
    "assignment": "OPENAI_API_KEY={}",
    "export": 'export TOKEN="{}"',
    "option": "run --api-key={} --fast",
    "query": "https://host/path?key={}&b=c",
    "path": "https://host/hooks/{}/end",
    "slash": "/{}",
    "diff row": "+{}",
    "diff assignment": "-KEY={}\n+KEY=none",
    "second line": "one\n{}",
    "carriage return": "one\r\n{}\r\ntwo",
    "tab": "name\t{}",
    "after a non-ASCII letter": "é{}",
    "after an emoji": "\U0001f600{}",
    "after CJK": "密钥{}。",
    "quotes": "'{}'",
    "brackets": "({})[{}]",
    "colon": "key:{};",
    "markdown": "`{}`",
    "HTML": "<b>{}</b>",
    "vertical tab": "a\v{}",
}


def completions(text: str) -> str:
    """A stream of Chat Completions, a character in each delta."""
    return events([{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in text])


def events(data: list[Any]) -> str:
    return "".join(f"data: {json.dumps(item)}\n\n" for item in data) + "data: [DONE]\n\n"


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


STREAMS: dict[str, Callable[[str], str]] = {
    "chat completions": completions,
    "two choices": lambda text: events(
        [
            {"choices": [{"index": number, "delta": {"content": piece}}]}
            for piece in pieces(text, 3)
            for number in (0, 1)
        ]
    ),
    "arguments": lambda text: events(
        [
            {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": piece}}]}}
                ]
            }
            for piece in pieces(json.dumps({"command": f"x\n{text}"}), 5)
        ]
    ),
    "anthropic text": lambda text: (
        "event: content_block_delta\n"
        + events(
            [
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
                for piece in pieces(text, 20)
            ]
        )
    ),
    "anthropic arguments": lambda text: events(
        [
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": p},
            }
            for p in pieces(json.dumps({"a": [text]}), 7)
        ]
    ),
    "responses": lambda text: events(
        [
            *(
                {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": piece}
                for piece in pieces(text, 18)
            ),
            {"type": "response.output_text.done", "text": text},
        ]
    ),
    "gemini events": lambda text: events(
        [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces(text, 4)]
    ),
    "gemini list": lambda text: json.dumps(
        [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces(text, 4)]
    ),
    "lines of JSON": lambda text: "".join(
        json.dumps({"message": {"content": piece}}) + "\n" for piece in pieces(text, 6)
    ),
    "one object": lambda text: json.dumps({"choices": [{"message": {"content": text}}]}),
    "broken JSON": lambda text: json.dumps({"error": text})[:-1],
    "HTML": lambda text: f"<p>{text}</p>",
    "a text": lambda text: text,
}


def leaks(stored: str, key: str) -> bool:
    """Whether a part of the key that identifies it is left, in whatever encoding or cut into pieces."""
    letters = "".join(character for character in stored if character.isalnum())
    longest = max(key.replace("\n", " ").split(), key=len) if "-----" in key else key
    return "".join(character for character in longest if character.isalnum())[-12:] in letters


def joined(answer: str) -> str:
    """The texts of the deltas of an answer as a client puts them together."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    for line in answer.splitlines():
        text = line.removeprefix("data:").strip()
        if text.startswith(("{", "[")) and text != "[DONE]":
            walk(json.loads(text))
    return "".join(found)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("key", SHAPES.values(), ids=SHAPES)
def test_no_key_stays_in_a_request(key: str, text: str) -> None:
    content = text.replace("{}", key)
    arguments = json.dumps({"command": content, "inner": json.dumps({"x": content})})
    body = {
        "messages": [{"content": content}, {"content": [{"type": "text", "text": content}]}],
        "tool_calls": [{"function": {"arguments": arguments}}],
        content: 1,
    }
    for encoded in (json.dumps(body), json.dumps(body, ensure_ascii=False), json.dumps(body)[:-1], content):
        stored = json.dumps(Redactor().request_body(encoded))
        assert not leaks(stored, key), stored
        assert HIDDEN in stored


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("key", SHAPES.values(), ids=SHAPES)
def test_no_key_stays_in_an_answer(key: str, stream: Callable[[str], str]) -> None:
    stored = Redactor().answer(stream(f"before {key} after"))
    if not stored.startswith(("<", "before", '{"error')):
        assert not leaks(joined(stored), key), stored
        assert "before" in joined(stored).replace("bbeeffoorree", "before")
    assert not leaks(stored, key)
    assert HIDDEN in stored


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_an_answer_without_keys_stays_as_it_is(stream: Callable[[str], str]) -> None:
    text = (
        'no key: sky-high, ask-me-0123456789abcdef0123, \\u4f60 \u4f60 \u2028 "quotes" /etc, a=b, task-force'
    )
    assert Redactor().answer(stream(text)) == stream(text)


def test_only_the_lines_with_a_key_change() -> None:
    lines = [
        "event: a\r\n",
        'data: {"a" :  1}\r\n',
        "\r\n",
        ": ping\r\n",
        'data: {"k" :"sk-' + LETTERS + '"}\r\n',
    ]
    stored = Redactor().answer("".join(lines))
    assert stored == "".join(lines[:4]) + f'data: {{"k": "{HIDDEN}"}}\r\n'


@pytest.mark.parametrize("key", SHAPES.values(), ids=SHAPES)
def test_the_environment_filter_knows_the_same_shapes(key: str) -> None:
    assert is_secret("X", f"x {key}")


def test_a_learned_key_is_found_in_any_encoding_and_across_deltas() -> None:
    redactor = Redactor(['of "mine" é'])
    redactor.learn({"Authorization": "Bearer learned-key-1"}, "https://host/?key=query-key-2")
    text = 'learned-key-1 query-key-2 of "mine" é'
    for stored in (
        json.dumps(redactor.request_body(json.dumps({"a": text, "b": json.dumps({"c": text})}))),
        joined(redactor.answer(completions(text))),
        redactor.answer(json.dumps({"a": json.dumps([text])})),
    ):
        for secret in ("learned-key", "query-key", "mine"):
            assert secret not in stored
    assert joined(redactor.answer(completions(text))) == f"{HIDDEN} {HIDDEN} {HIDDEN}"


@pytest.mark.parametrize(
    "name",
    [
        *("token", "auth_token", "access_token", "refreshToken", "secret", "client_secret", "private_key"),
        *("aws_secret_access_key", "passwd", "password", "db_password", "api_key", "apiKey", "x-api-key"),
        *("authorization", "Authorization", "authorization_token", "cookie", "pwd", "credentials"),
    ],
)
def test_members_named_like_a_credential_are_hidden_also_in_arguments(name: str) -> None:
    body = {
        "a": [{name: "hunter2"}],
        "arguments": json.dumps({name: "hunter2", "b": 1}),
        "text": f'{{"{name}": "hunter2',
    }
    stored = json.dumps(Redactor().request_body(json.dumps(body)))
    assert "hunter2" not in stored
    deltas = [{"delta": {"arguments": piece}} for piece in pieces(json.dumps({name: "hunter2", "b": 1}), 3)]
    assert joined(Redactor().answer(events(deltas))) == json.dumps({name: HIDDEN, "b": 1})


@pytest.mark.parametrize(
    "member",
    [
        {
            "max_tokens": 5,
            "token_type": "x",
            "prompt_cache_key": "x",
            "nextPageToken": "x",
            "key": "x",
            "signature": "x",
        },
        {"content": [{"token": "Hello", "logprob": -0.1}]},
        {
            "properties": {"password": {"type": "string", "description": "The password."}},
            "required": ["password"],
        },
        {"token": "", "secret": None, "password": 5, "cookie": True},
    ],
)
def test_other_members_are_kept(member: dict[str, Any]) -> None:
    assert Redactor().request_body(json.dumps(member)) == member


def test_a_name_without_letters_is_no_credential() -> None:
    assert not is_secret_name("123_-")


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://u:p@host/v1?key=abc&alt=sse", "https://host/v1?key=***&alt=sse"),
        (
            "https://host/v1?access_token=abc&X-Goog-Api-Key=d",
            "https://host/v1?access_token=***&X-Goog-Api-Key=***",
        ),
        (f"https://host/bot{SHAPES['openai']}/x", f"https://host/bot{SHAPES['openai']}/x"),
        (f"https://host/{SHAPES['openai']}/x", "https://host/***/x"),
        ("https://host/v1?page=2#fragment", "https://host/v1?page=2"),
    ],
)
def test_an_address_loses_its_secrets(url: str, stored: str) -> None:
    assert Redactor().url(url) == stored


def test_a_password_in_an_address_in_a_text_is_hidden() -> None:
    assert (
        Redactor().text("DATABASE_URL=postgres://u:p4ss@host/db")
        == f"DATABASE_URL=postgres://{HIDDEN}@host/db"
    )


def test_opaque_data_that_holds_a_shape_by_chance_is_kept() -> None:
    body = {
        "signature": "EqQBCkgIsk-abcdefghijklmnopqrstuvAKIAABCDEFGHIJKLMNOP==",
        "data": "a" * 10_000 + "gsk_short",
    }
    assert Redactor().request_body(json.dumps(body)) == body


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '"sk-x"', "\ud800", "[" * 5000, '{"a":' * 5000])
def test_odd_bodies_are_taken(text: str) -> None:
    redactor = Redactor()
    redactor.request_body(text)
    assert redactor.answer(text) == text


@pytest.mark.parametrize(
    "piece", ['"a":', "sk-", "-----BEGIN PRIVATE KEY-----\n", "eyJa.", "://a:", '{"token": "x"}']
)
def test_long_texts_take_linear_time(piece: str) -> None:
    """Quadratic, 300,000 characters would take longer than the time limit of a test."""
    text = piece * (300_000 // len(piece))
    Redactor().request_body(json.dumps({"a": text}))
    Redactor().answer(completions(text[:20_000]))
    Redactor().answer(text)


def test_the_places_of_secrets_that_are_left_are_named() -> None:
    value = {
        "a": [{"b": "fine"}, {"b": f"x {SHAPES['aws']}"}],
        "token": "t",
        "c": json.dumps({"password": "p"}),
    }
    assert Redactor().places(value, "body") == ["body.a[1].b", "body.token", "body.c"]
