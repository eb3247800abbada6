"""The texts of failed requests, and the secrets that they must not contain."""

from __future__ import annotations

import json

import pytest

from agent.providers.http.failure import response_text

LONG = "the model you asked for is not known here"


def text(body: object, status: int = 400, **headers: str) -> str:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return response_text(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": LONG, "type": "invalid_request_error"}},
        {"type": "error", "error": {"type": "not_found_error", "message": LONG}},
        {"error": LONG},
        {"message": LONG},
        [{"error": {"code": 400, "message": LONG, "status": "INVALID"}}],
        LONG.encode(),
    ],
)
def test_the_message_is_found_wherever_the_server_puts_it(body: object) -> None:
    assert text(body) == f"400 {LONG}"


@pytest.mark.parametrize("header", ["x_request_id", "request_id"])
def test_the_text_contains_the_request_id(header: str) -> None:
    assert text({"message": LONG}, **{header: "req_1"}) == f"400 {LONG} (request-id: req_1)"


def test_a_short_message_is_followed_by_the_body() -> None:
    assert text({"error": {"message": "Bad Request", "param": "tools"}}) == (
        '400 Bad Request\n{"error": {"message": "Bad Request", "param": "tools"}}'
    )


def test_a_short_body_is_not_repeated() -> None:
    assert text(b"Bad Request") == "400 Bad Request"


def test_the_error_of_the_provider_behind_a_router_follows() -> None:
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "upstream: no tools"}}}
    assert text(body) == "400 Provider returned error\nupstream: no tools"


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_an_empty_body_is_named_as_such(body: bytes) -> None:
    assert text(body, status=413) == "413 (no body)"


def test_a_redirect_names_where_to() -> None:
    text_of_redirect = text(b"", status=308, location="https://api.example.com/v1")
    assert text_of_redirect == "308 redirected to https://api.example.com/v1: set this as the base URL"


@pytest.mark.parametrize(
    "body", [{"error": None}, {"error": {"message": 5}}, [], 5, None, {}, {"error": {"metadata": 5}}]
)
def test_a_body_of_another_shape_is_quoted(body: object) -> None:
    assert text(body) == f"400 {json.dumps(body)}"


def test_a_body_truncated_inside_a_character_is_quoted_up_to_it() -> None:
    assert text("grüße".encode()[:3]) == "400 gr\ufffd"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (b"<!DOCTYPE html>\n<HTML><TITLE>Just a\n moment &amp; wait</TITLE>", "502 Just a moment & wait"),
        (b"<html><body>nothing</body></html>", "502 (a web page)"),
    ],
)
def test_a_web_page_is_shown_by_its_title(page: bytes, shown: str) -> None:
    """N18"""
    assert text(page, status=502) == shown
