"""The tests' own tools: what they promise to every other test."""

from __future__ import annotations

import subprocess
import sys
import threading

import httpx
import pytest
from support.leftovers import Leftovers, _children_from_ps, children
from support.real import require_or_skip
from support.sse_server import SseServer, cut, hang, no_head, pause, wait_for


def test_a_thread_that_goes_on_is_reported() -> None:
    leftovers, go = Leftovers(), threading.Event()
    thread = threading.Thread(target=go.wait, name="stray")
    thread.start()
    try:
        assert leftovers.wait(0.05) == ["thread 'stray'"]
    finally:
        go.set()
        thread.join()
    assert leftovers.wait(2) == []


def test_a_thread_that_is_ending_is_waited_for() -> None:
    leftovers = Leftovers()
    timer = threading.Timer(0.1, lambda: None)
    timer.start()
    assert leftovers.wait(2) == []


@pytest.mark.skipif(sys.platform == "win32", reason="children are not watched on Windows")
@pytest.mark.parametrize("look", [children, _children_from_ps])
def test_a_child_process_is_seen_until_it_is_waited_for(look) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in look()
        assert child.stdin
        child.stdin.close()
    assert child.pid not in look()


def test_a_child_process_left_behind_is_reported() -> None:
    leftovers = Leftovers()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        left = leftovers.wait(0.05)
        assert child.stdin
        child.stdin.close()
    assert len(left) == 1
    assert f"child process {child.pid}" in left[0]


def test_a_missing_real_part_skips_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_REQUIRE_REAL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no engine"):
        require_or_skip("no engine")


def test_a_missing_real_part_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_REQUIRE_REAL", "1")
    with pytest.raises(pytest.fail.Exception, match="no engine"):
        require_or_skip("no engine")


def test_the_server_plays_its_responses_in_order(sse_server: SseServer) -> None:
    sse_server.play(b"data: 1\n\n", pause(0.01), "data: 2\n\n")
    sse_server.play("later", status=429, headers={"Retry-After": "1"})
    with httpx.Client(base_url=sse_server.url) as client:
        first, second = client.post("/v1/x", json={"n": 1}), client.post("/v1/x", json={"n": 2})
    assert (first.status_code, first.text) == (200, "data: 1\n\ndata: 2\n\n")
    assert (second.status_code, second.headers["retry-after"]) == (429, "1")
    assert [r.json["n"] for r in sse_server.requests] == [1, 2]
    assert [r.connection for r in sse_server.requests] == [1, 1]


def test_a_response_may_be_played_again_and_again(sse_server: SseServer) -> None:
    sse_server.play(b"same", repeat=True)
    assert [httpx.post(sse_server.url).text for _ in range(3)] == ["same"] * 3


def test_a_script_that_is_used_up_says_so(sse_server: SseServer) -> None:
    response = httpx.post(sse_server.url)
    assert response.status_code == 500
    assert "used up" in response.text


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_ends_the_body_in_the_middle(sse_server: SseServer, reset: bool) -> None:
    sse_server.play(b"data: {", cut(reset))
    with pytest.raises(httpx.TransportError):
        httpx.post(sse_server.url)


def test_a_client_that_leaves_a_hanging_response_is_noticed(sse_server: SseServer) -> None:
    sse_server.play(b"data: 1\n\n", hang())
    with httpx.stream("POST", sse_server.url) as response:
        assert next(response.iter_raw()) == b"data: 1\n\n"
        assert not sse_server.disconnected.is_set()
    assert sse_server.disconnected.wait(2)


def test_the_head_may_be_held_back(sse_server: SseServer) -> None:
    go = threading.Event()
    sse_server.play(no_head(), wait_for(go), b"late")
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(httpx.post(sse_server.url).text))
    client.start()
    sse_server.wait_for_requests(1)
    assert answers == []
    go.set()
    client.join(5)
    assert answers == ["late"]


def test_closing_the_server_ends_a_hanging_response() -> None:
    server = SseServer()
    server.play(b"data: 1\n\n", hang())
    with httpx.stream("POST", server.url) as response:
        chunks = response.iter_raw()
        assert next(chunks) == b"data: 1\n\n"
        server.close()
        with pytest.raises(httpx.TransportError):
            next(chunks)
