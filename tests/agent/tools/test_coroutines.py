"""Coroutines of async tools on threads without an event loop, and their cancellation."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent import Agent
from agent.cancel import CancelToken
from agent.errors import ToolError
from agent.messages import ToolResultMessage
from agent.testing import ScriptedModel, tool_call
from agent.tools import ToolContext, tool
from agent.tools.coroutines import run_coroutine


def test_an_async_function_is_run_to_its_end() -> None:
    @tool
    async def fetch(n: int) -> int:
        return n + 1

    assert fetch.execute({"n": 1}, None).text == "2"


def test_an_async_function_is_cancelled_where_it_waits() -> None:
    waiting, cleaned = threading.Event(), threading.Event()

    @tool
    async def wait_for_ever() -> str:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return "never"

    model = ScriptedModel([tool_call("wait_for_ever", {})], "not asked")
    with Agent(model.model, stream_fn=model.stream, tools=[wait_for_ever]) as agent:
        run = agent.prompt("go")
        assert waiting.wait(5)
        agent.abort()
        result = run.result(5)
    assert cleaned.wait(0)
    assert result.stop == "aborted"
    assert model.calls == 1


def test_an_async_function_that_exceeds_its_timeout_is_an_error_result() -> None:
    @tool(timeout=0.05)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([tool_call("slow", {})], "done")
    with Agent(model.model, stream_fn=model.stream, tools=[slow]) as agent:
        result = agent.run("go")
    (answer,) = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    assert answer.is_error
    assert "slow timed out after 0.05 seconds" in answer.text


def test_an_async_function_works_with_any_cancel_token_and_with_none() -> None:
    @tool
    async def again(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert again.execute({"n": 1}, None).text == "1"
    assert again.execute({"n": 2}, ToolContext("c", threading.Event())).text == "2"  # type: ignore[arg-type]
    cancelled = ToolContext()
    cancelled.cancel.cancel()
    with pytest.raises(ToolError, match="cancelled"):
        again.execute({"n": 3}, cancelled)


def test_the_result_of_a_coroutine_comes_from_an_event_loop_of_its_own() -> None:
    async def loop_of_call() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first, second = run_coroutine(loop_of_call(), None), run_coroutine(loop_of_call(), None)
    assert first is not second
    assert first.is_closed()


def test_the_exception_of_a_coroutine_is_raised_unchanged() -> None:
    error = ValueError("broken")

    async def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="broken") as raised:
        run_coroutine(fail(), CancelToken())
    assert raised.value is error


def test_a_coroutine_that_returns_in_spite_of_the_cancellation_has_its_result() -> None:
    cancel = CancelToken()

    async def stubborn() -> str:
        cancel.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return "never"

    assert run_coroutine(stubborn(), cancel) == "saved"


def test_a_coroutine_that_cancels_itself_without_the_token_raises_the_cancellation() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    for cancel in (None, CancelToken()):
        with pytest.raises(asyncio.CancelledError):
            run_coroutine(give_up(), cancel)
