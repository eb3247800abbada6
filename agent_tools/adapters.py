"""The tools handed to other frameworks: plain functions, Pydantic AI, the OpenAI Agents SDK, LangChain.

Each framework is imported only by the function that is asked for it. All take any objects with `name`,
`description`, `parameters` (JSON Schema) and `execute(arguments, context)`. Under an event loop a call runs
on a daemon thread of its own; cancelling the task that awaits it sets the call's stop signal, so that the
tools of this box end at once and kill what they started. A failed call is told to the model.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import importlib
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Optional, Protocol, Union

from agent_tools.tool import Block, Context, ImageBlock, Result, TextBlock, ToolFailure


class AnyTool(Protocol):
    """What every tool has, of this box or of another."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    def execute(self, arguments: Any, context: Any = None, /) -> Any: ...


def as_functions(tools: Iterable[AnyTool], *, raise_errors: bool = False) -> list[Callable[..., Any]]:
    """The tools as plain functions, for everything that takes a list of those.

    Name, signature, annotations and docstring are the tool's. A call returns the text, or, when there are
    images, the list of blocks. A failure returns its text after "Error: ", or raises `ToolFailure` with
    `raise_errors`. The functions may be called from any number of threads.
    """
    return [_as_function(tool, raise_errors) for tool in tools]


def to_pydantic_ai(tools: Iterable[AnyTool]) -> list[Any]:
    """The tools as `pydantic_ai.Tool`s: `Agent(model, tools=to_pydantic_ai(coding_tools()))`.

    A failed call reaches the model as a failed tool result and uses up none of its retries.
    """
    framework = require("pydantic_ai", "pydantic-ai-slim")
    failed = getattr(importlib.import_module("pydantic_ai.exceptions"), "ToolFailed", None)

    def convert(tool: AnyTool) -> Any:
        def image(block: ImageBlock) -> Any:
            return framework.BinaryContent(base64.b64decode(block.data), media_type=block.mime_type)

        async def call(ctx: Any, /, **arguments: Any) -> Any:
            result = await call_tool(tool, arguments, ctx.tool_call_id or "")
            if result.is_error and failed is not None:
                raise failed(told_text(result))
            return _simplest(told(result), image)

        return framework.Tool.from_schema(
            call,
            tool.name,
            tool.description,
            tool.parameters,
            takes_ctx=True,
            sequential=not getattr(tool, "parallel", False),
        )

    return [convert(tool) for tool in tools]


def to_openai_agents(tools: Iterable[AnyTool]) -> list[Any]:
    """The tools as `agents.FunctionTool`s: `Agent(name="coder", tools=to_openai_agents(coding_tools()))`."""
    framework = require("agents", "openai-agents")

    def convert(tool: AnyTool) -> Any:
        async def call(ctx: Any, arguments: str) -> Any:
            result = await call_tool(tool, arguments, getattr(ctx, "tool_call_id", ""))
            blocks = told(result)
            if not any(isinstance(block, ImageBlock) for block in blocks):
                return told_text(result)
            return [
                framework.ToolOutputText(text=block.text)
                if isinstance(block, TextBlock)
                else framework.ToolOutputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
                for block in blocks
            ]

        # Its strict mode would make every optional argument a required one.
        return framework.FunctionTool(
            tool.name, tool.description, tool.parameters, call, strict_json_schema=False
        )

    return [convert(tool) for tool in tools]


def to_langchain(tools: Iterable[AnyTool]) -> list[Any]:
    """The tools as LangChain `StructuredTool`s, for `create_agent(model, to_langchain(coding_tools()))`.

    The message's artifact is the `Result`; a failed call becomes a message of status "error".
    """
    framework = require("langchain_core.tools", "langchain-core")

    def convert(tool: AnyTool) -> Any:
        def answer(result: Result) -> tuple[Any, Result]:
            if result.is_error:
                raise framework.ToolException(told_text(result))
            content = _simplest(
                told(result),
                lambda image: {"type": "image", "base64": image.data, "mime_type": image.mime_type},
                lambda text: {"type": "text", "text": text},
            )
            return content, result

        def call(**arguments: Any) -> tuple[Any, Result]:
            return answer(run_tool(tool, arguments, Context()))

        async def call_async(**arguments: Any) -> tuple[Any, Result]:
            return answer(await call_tool(tool, arguments))

        return framework.StructuredTool.from_function(
            call,
            call_async,
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            infer_schema=False,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )

    return [convert(tool) for tool in tools]


# What every integration needs


def require(module: str, install: str) -> Any:
    """An optional module; a missing one raises ImportError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise  # it is installed, but something of its own is not
        raise ImportError(f"{module.partition('.')[0]} is not installed: pip install '{install}'") from error


def run_tool(tool: AnyTool, arguments: Mapping[str, Any] | str, context: Context) -> Result:
    """A tool's answer as a `Result`, whatever it returns or raises; on the caller's thread."""
    try:
        given = json.loads(arguments or "{}", strict=False) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        return Result(f"the arguments of {tool.name} are no JSON object: {error}", is_error=True)
    try:
        return _as_result(tool.execute(given, context))
    except Exception as error:  # other people's tools may raise, and a model can act on the text
        return Result(f"{tool.name} failed: {error}", is_error=True)


def _as_result(answer: Any) -> Result:
    if isinstance(answer, Result):
        return answer
    content = answer if isinstance(answer, (str, list, tuple)) else answer.content
    return Result(
        content if isinstance(content, str) else [_block(item) for item in content],
        meta=getattr(answer, "meta", None),
        is_error=getattr(answer, "is_error", False),
    )


async def call_tool(
    tool: AnyTool,
    arguments: Mapping[str, Any] | str,
    tool_call_id: str = "",
    on_update: Callable[[Result], object] | None = None,
) -> Result:
    """`run_tool` on a daemon thread of its own, awaited; cancelling the task sets the call's stop signal.

    For asyncio. `on_update` gets progress on that thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()
    context = Context(tool_call_id, threading.Event(), on_update)
    surroundings = contextvars.copy_context()

    def settle(result: Result) -> None:
        if not answer.done():
            answer.set_result(result)

    def work() -> None:
        result = surroundings.run(run_tool, tool, arguments, context)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name=f"tool-{tool.name}", daemon=True).start()
    try:
        return await answer
    except asyncio.CancelledError:
        assert isinstance(context.cancel, threading.Event)
        context.cancel.set()
        raise


def told(result: Result) -> list[Block]:
    """The blocks a model is shown: the content, then one `[key: value]` line for each entry of `meta`."""
    lines = [f"[{key}: {value}]" for key, value in sorted((result.meta or {}).items())]
    return [*result.content, *([TextBlock("\n".join(lines))] if lines else [])]


def told_text(result: Result) -> str:
    """The texts of `told`, each on lines of its own."""
    return "\n".join(block.text for block in told(result) if isinstance(block, TextBlock))


def _block(item: Any) -> Block:
    if item.type == "image":
        return ImageBlock(item.data, item.mime_type)
    return TextBlock(item.text)


def _simplest(
    blocks: list[Block], image: Callable[[ImageBlock], Any], text: Callable[[str], Any] = str
) -> str | list[Any]:
    """A string when there is only text, else the list of blocks in the framework's own form."""
    if all(isinstance(block, TextBlock) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [text(block.text) if isinstance(block, TextBlock) else image(block) for block in blocks]


# Plain functions


def _as_function(tool: AnyTool, raise_errors: bool) -> Callable[..., Any]:
    signature = _signature(tool.parameters)

    def function(*positional: Any, **named: Any) -> Any:
        given = signature.bind(*positional, **named).arguments
        present = {name: value for name, value in given.items() if value is not None}
        result = run_tool(tool, present, Context())
        if result.is_error:
            if raise_errors:
                raise ToolFailure(told_text(result))
            return f"Error: {told_text(result)}"
        return told_text(result) if all(block.type == "text" for block in result.content) else told(result)

    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = _docstring(tool)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
    function.__annotations__["return"] = str
    return function


def _signature(schema: Mapping[str, Any]) -> inspect.Signature:
    required = set(schema.get("required", ()))
    properties = sorted(schema["properties"].items(), key=lambda item: item[0] not in required)
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_annotation(item))
            if name in required
            else inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=item.get("default"),
                annotation=Optional[_annotation(item)],  # noqa: UP045 _annotation gives a value, no type
            )
            for name, item in properties
        ],
        return_annotation=str,
    )


_PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


def _annotation(schema: Mapping[str, Any]) -> Any:
    """The Python type that a JSON Schema describes."""
    if choices := schema.get("enum"):
        return Literal[tuple(choices)]
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return Union[tuple(_annotation(branch) for branch in branches)]  # noqa: UP007 of a computed tuple
    kind = schema.get("type")
    if kind == "array":
        return list[_annotation(schema.get("items", {}))]  # type: ignore[misc]
    if kind == "object":
        return dict[str, Any]
    return _PLAIN.get(kind, Any) if isinstance(kind, str) else Any


def _docstring(tool: AnyTool) -> str:
    """The description, then the arguments in the style most frameworks read back into a schema."""
    lines = [
        f"    {name}: {' '.join(item.get('description', '').split()) or name}"
        for name, item in tool.parameters["properties"].items()
    ]
    return "\n".join([tool.description, *(["", "Args:", *lines] if lines else [])])
