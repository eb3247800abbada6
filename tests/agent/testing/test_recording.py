"""Recordings: the traffic of providers is stored once and replayed byte for byte, without secrets."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support import completions
from support.formats import FORMATS
from support.sse_server import SseServer, cut

from agent import Agent, ConfigurationError, Model, RetryPolicy, RunError, tool
from agent.testing import Recording

KEY = "sk-live-0123456789abcdef0123"
AT_ONCE = RetryPolicy((), (), (), ())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hello.json"


def send(url: str, body: bytes = b"{}", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """One request as any client makes it: status, headers, body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request(
            "POST", f"{parts.path}?{parts.query}" if parts.query else parts.path, body, headers
        )
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def ask(recording: Recording, model: Model, prompt: str = "hi", **more: Any) -> Any:
    options: dict[str, Any] = {"get_api_key": recording.get_api_key, "retry": AT_ONCE} | more
    with Agent(recording.model(model), **options) as agent:
        return agent.run(prompt)


@pytest.mark.parametrize("api", FORMATS)
def test_an_answer_is_recorded_once_and_replayed(api: str, path: Path) -> None:
    found = FORMATS[api]
    with SseServer() as server:
        found.greet(server)
        model = replace(found.model, base_url=server.url)
        with Recording(path) as recording:
            assert recording.mode == "record"
            first = ask(recording, model, get_api_key=lambda provider: KEY)
        assert server.requests[0].headers[found.key_header] == found.prefix + KEY
    with Recording(path) as recording:
        assert recording.mode == "replay"
        again = ask(recording, model)
        recording.assert_finished()
    assert first.text == again.text == "hello"
    assert first.usage == again.usage
    assert KEY not in path.read_text()


@pytest.mark.parametrize("api", FORMATS)
def test_a_loop_with_tools_is_replayed(api: str, path: Path) -> None:
    """The second request holds the text of the first answer."""
    found = FORMATS[api]

    @tool
    def look() -> str:
        """Look."""
        return "a fish"

    with SseServer() as server:
        found.greet(server)
        found.greet(server)
        model = replace(found.model, base_url=server.url)
        for _ in range(2):
            with (
                Recording(path) as recording,
                Agent(recording.model(model), tools=[look], get_api_key=lambda provider: KEY) as agent,
            ):
                assert agent.run("one").text == agent.run("two").text == "hello"
        assert len(server.requests) == 2


def test_the_bytes_are_the_same(path: Path) -> None:
    body = (
        b'data: {"text":"\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80"}\r\n\r\n: ping\n\ndata: \xff\xfe half\n\n'
    )
    with SseServer() as server:
        server.play(body[:9], body[9:40], body[40:], headers={"x-request-id": "req_1", "set-cookie": "a=b"})
        with Recording(path) as recording:
            live = send(recording.url(server.url) + "/v1/x", b'{"a":1}')
    with Recording(path) as recording:
        played = send(recording.url(server.url) + "/v1/x", b'{"a": 1}')
    assert live[2] == played[2] == body
    assert (played[0], played[1]["x-request-id"], played[1]["content-type"]) == (
        200,
        "req_1",
        "text/event-stream",
    )
    assert "set-cookie" not in path.read_text()


def test_errors_and_their_waits_are_replayed(path: Path) -> None:
    model = completions.LOCAL
    with SseServer() as server:
        server.play('{"error":{"message":"slow down"}}', status=429, headers={"Retry-After-Ms": "1"})
        server.play(*completions.HELLO)
        for _ in range(2):
            waits: list[float] = []
            with Recording(path) as recording:
                ask(
                    recording,
                    replace(model, base_url=server.url),
                    retry=RetryPolicy(request=(0.0,)),
                    on_retry=lambda attempt, delay, text, waits=waits: waits.append(delay),
                )
            assert waits == [0.001]
        assert len(server.requests) == 2


def test_an_answer_that_broke_off_breaks_off_in_the_replay(path: Path) -> None:
    with SseServer() as server:
        server.play(completions.HELLO[0], cut())
        for _ in range(2):
            with (
                Recording(path) as recording,
                Agent(
                    recording.model(replace(completions.LOCAL, base_url=server.url)), retry=AT_ONCE
                ) as agent,
            ):
                result = agent.prompt("hi").result()
            assert result.stop == "error"
            assert result.text == "hel"
    assert json.loads(path.read_text())["exchanges"][0]["cut"] is True


def test_a_provider_that_is_not_there_is_replayed_as_such(path: Path) -> None:
    with SseServer() as server:
        gone = replace(completions.LOCAL, base_url=server.url)
    for _ in range(2):
        with Recording(path) as recording, pytest.raises(RunError):
            ask(recording, gone)


def test_secrets_are_removed_wherever_they_stand(path: Path) -> None:
    query_key, header_key, own = "AIzaQuery-0123456789", "header-secret-9", "s3cret-of-mine"
    with SseServer() as server:
        server.play(f"you sent {header_key} and {query_key} and {own}; ", "sk-other0123456789abcd")
        with Recording(path, secrets=[own]) as recording:
            body = {
                "tools": [{"type": "mcp", "authorization_token": "mcp-token-1"}],
                "prompt": f"my keys are {header_key} and {own}",
            }
            url = recording.url(f"{server.url}/v1?key={query_key}&alt=sse")
            headers = {"authorization": f"Bearer {header_key}", "x-harmless": "kept-out-too"}
            status, _, answer = send(url, json.dumps(body).encode(), **headers)
            assert query_key in server.requests[0].path
    assert status == 200
    assert header_key.encode() in answer
    text = path.read_text()
    for secret in (query_key, header_key, own, "mcp-token-1", "sk-other", "kept-out-too", "harmless"):
        assert secret not in text, secret
    (exchange,) = json.loads(text)["exchanges"]
    assert exchange["url"].endswith("/v1?key=***&alt=sse")
    assert exchange["chunks"] == ["you sent *** and *** and ***; ***"]


def test_a_key_in_the_deltas_of_an_answer_is_not_stored(path: Path) -> None:
    """FT-S10"""
    key = "sk-proj-0123456789abcdefghijABCDEFGHIJ"
    deltas = [
        {"choices": [{"index": 0, "delta": {"content": key[start : start + 5]}}]} for start in range(0, 38, 5)
    ]
    with SseServer() as server:
        server.play(*(f"data: {json.dumps(delta)}\n\n" for delta in deltas), "data: [DONE]\n\n")
        with Recording(path) as recording:
            live = send(recording.url(server.url))[2].decode()
    assert live.count("data:") == len(deltas) + 1
    (exchange,) = json.loads(path.read_text())["exchanges"]
    stored = "".join(exchange["chunks"])
    assert [json.loads(line[5:])["choices"][0]["delta"]["content"] for line in stored.split("\n\n")[:-2]] == [
        "***",
        *[""] * (len(deltas) - 1),
    ]


def test_a_file_that_would_hold_a_key_is_not_written(path: Path) -> None:
    """FT-S10: what a test adds itself is checked too, and the places are named."""
    with SseServer() as server:
        server.play("fine")
        recording = Recording(path)
        try:
            send(recording.url(server.url), b'{"messages": ["x"]}')
        finally:
            recording.close()
    recording.exchanges[0].body["messages"][0] = "KEY=ghp_" + "a1B2" * 9
    recording.exchanges[0].chunks.append(" sk-0123456789abcdefghij")
    with pytest.raises(
        ConfigurationError, match=r"at exchanges\[0\].body.messages\[0\], exchanges\[0\].chunks"
    ):
        recording.save()
    assert not path.exists()


def test_a_replay_with_another_key_finds_its_answer(path: Path) -> None:
    with SseServer() as server:
        server.play("one")
        with Recording(path) as recording:
            send(recording.url(f"{server.url}/x?key=first-key"), b'{"a":"first-key"}')
    with Recording(path) as recording:
        assert send(recording.url("http://other/x?key=second-key"), b'{"a":"second-key"}')[2] == b"one"


def test_opaque_data_that_looks_like_a_key_inside_is_kept(path: Path) -> None:
    signature = "EqQBCkgIsk-abcdefghijklmnopqrstuvAKIAABCDEFGHIJKLMNOP=="
    with SseServer() as server:
        server.play(f'{{"signature":"{signature}"}}')
        with Recording(path) as recording:
            send(recording.url(server.url))
    assert signature in json.loads(path.read_text())["exchanges"][0]["chunks"][0]


def test_a_request_that_was_not_recorded_gets_an_error_that_shows_the_difference(path: Path) -> None:
    with SseServer() as server:
        server.play(*completions.HELLO)
        model = replace(completions.LOCAL, base_url=server.url)
        with Recording(path) as recording:
            ask(recording, model, "hi")
    with (
        pytest.raises(AssertionError, match=r'body\.messages\[0\]\.content is "ho", "hi" was recorded'),
        Recording(path) as recording,
        pytest.raises(RunError, match="was recorded"),
    ):
        ask(recording, model, "ho")
    with pytest.raises(AssertionError, match="1 recorded answers were not requested"):
        recording.assert_finished()


def test_with_order_the_body_does_not_matter(path: Path) -> None:
    with SseServer() as server:
        server.play(*completions.HELLO)
        model = replace(completions.LOCAL, base_url=server.url)
        with Recording(path) as recording:
            ask(recording, model, "hi")
    with Recording(path, match="order") as recording:
        assert ask(recording, model, "ho").text == "hello"


def test_several_providers_share_a_recording(path: Path) -> None:
    with SseServer() as down, SseServer() as up:
        down.play("no", status=503)
        up.play(*completions.HELLO)
        first = replace(completions.LOCAL, id="a", base_url=down.url)
        second = replace(completions.LOCAL, id="b", base_url=up.url)
        for _ in range(2):
            with Recording(path) as recording:
                fallbacks = [recording.model(second)]
                assert ask(recording, first, fallbacks=fallbacks).text == "hello"
        assert (len(down.requests), len(up.requests)) == (1, 1)


def test_nothing_is_written_when_the_test_fails(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Recording(path):
        _ = 1 / 0
    assert not path.exists()


def test_a_missing_or_malformed_file_is_an_error(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no recording to replay"):
        Recording(path, mode="replay")
    path.parent.mkdir()
    path.write_text("[]")
    with pytest.raises(ConfigurationError, match="not a recording"):
        Recording(path)


def test_an_address_without_a_provider_is_refused(path: Path) -> None:
    with Recording(path) as recording:
        here = recording.url("http://host/v1").removesuffix("/0/v1")
        assert [send(f"{here}{place}")[0] for place in ("/", "/7/x", "/v1/chat")] == [404, 404, 404]


def test_it_can_be_closed_twice_and_while_a_client_is_connected(path: Path) -> None:
    recording = Recording(path)
    parts = urlsplit(recording.url("http://host"))
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.connect()
    recording.close()
    recording.close()
    connection.close()
