"""Converts tools for other frameworks: plain functions, Pydantic AI, the OpenAI Agents SDK, LangChain.

Each framework is imported only by the function that converts for it. All functions take any objects with
`name`, `description`, `parameters` (JSON Schema) and `execute(arguments, context)`. Under an event loop each
call runs on its own daemon thread; cancelling the task that awaits it sets the call's cancel token, so that
the tools of this package return at once and kill what they started. The text of a failed call is sent to the
model.
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
from collections.abc import Callable, Iterable
from typing import Any, Literal, Optional, Union

from agent_tools.tool import (
    AnyTool,
    Block,
    CallContext,
    Context,
    ImageBlock,
    JsonMapping,
    JsonObject,
    Result,
    TextBlock,
    ToolFailure,
)


def as_functions(tools: Iterable[AnyTool], *, raise_errors: bool = False) -> list[Callable[..., Any]]:
    """Convert the tools into plain functions.

    Name, signature, annotations and docstring are those of the tool. A call returns the text or, with images,
    the list of blocks. A failed call returns its text after "Error: ", or raises `ToolFailure` with
    `raise_errors`. The functions may be called from any number of threads.
    """
    return [_as_function(tool, raise_errors) for tool in tools]


def to_pydantic_ai(tools: Iterable[AnyTool]) -> list[Any]:
    """Convert the tools into `pydantic_ai.Tool`s: `Agent(model, tools=to_pydantic_ai(coding_tools()))`.

    A failed call becomes a failed tool result and uses up no retry.
    """
    framework = require("pydantic_ai", "pydantic-ai-slim")
    failed = getattr(importlib.import_module("pydantic_ai.exceptions"), "ToolFailed", None)

    def convert(tool: AnyTool) -> Any:
        def image(block: ImageBlock) -> Any:
            return framework.BinaryContent(base64.b64decode(block.data), media_type=block.mime_type)

        async def call(ctx: Any, /, **arguments: Any) -> Any:
            result = await call_tool(tool, arguments, ctx.tool_call_id or "")
            if result.is_error and failed is not None:
                raise failed(text_for_model(result))
            return _simplest(blocks_for_model(result), image)

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
    """Convert the tools into `agents.FunctionTool`s: `Agent(tools=to_openai_agents(coding_tools()))`."""
    framework = require("agents", "openai-agents")

    def convert(tool: AnyTool) -> Any:
        async def call(ctx: Any, arguments: str) -> Any:
            result = await call_tool(tool, arguments, getattr(ctx, "tool_call_id", ""))
            blocks = blocks_for_model(result)
            if not any(isinstance(block, ImageBlock) for block in blocks):
                return text_for_model(result)
            return [
                framework.ToolOutputText(text=block.text)
                if isinstance(block, TextBlock)
                else framework.ToolOutputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
                for block in blocks
            ]

        # The strict mode would make every optional argument required.
        return framework.FunctionTool(
            tool.name, tool.description, tool.parameters, call, strict_json_schema=False
        )

    return [convert(tool) for tool in tools]


def to_langchain(tools: Iterable[AnyTool]) -> list[Any]:
    """Convert the tools into LangChain tools: `create_agent(model, to_langchain(coding_tools()))`.

    The message's artifact is the `Result`; a failed call becomes a message of status "error".
    """
    framework = require("langchain_core.tools", "langchain-core")

    def convert(tool: AnyTool) -> Any:
        def answer(result: Result) -> tuple[Any, Result]:
            if result.is_error:
                raise framework.ToolException(text_for_model(result))
            content = _simplest(
                blocks_for_model(result),
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


# Shared by all integrations


def require(module: str, install: str) -> Any:
    """Import an optional module; ImportError, with the command that installs it, when it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise  # the module is installed, one of its dependencies is not
        raise ImportError(f"{module.partition('.')[0]} is not installed: pip install '{install}'") from error


def run_tool(tool: AnyTool, arguments: JsonMapping | str, context: CallContext) -> Result:
    """Call a tool on this thread and return its outcome as a `Result`, whatever it returns or raises."""
    try:
        given = json.loads(arguments or "{}", strict=False) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as error:
        return Result(f"the arguments of {tool.name} are not a JSON object: {error}", is_error=True)
    try:
        return _as_result(tool.execute(given, context))
    except Exception as error:  # foreign tools may raise, and a model can act on the text
        return Result(f"{tool.name} failed: {error}", is_error=True)


def _as_result(returned: Any) -> Result:
    if isinstance(returned, Result):
        return returned
    content = returned if isinstance(returned, (str, list, tuple)) else returned.content
    return Result(
        content if isinstance(content, str) else [_block(item) for item in content],
        meta=getattr(returned, "meta", None),
        is_error=getattr(returned, "is_error", False),
    )


async def call_tool(
    tool: AnyTool,
    arguments: JsonMapping | str,
    tool_call_id: str = "",
    on_update: Callable[[Result], object] | None = None,
) -> Result:
    """Await `run_tool` on its own daemon thread (asyncio); cancelling the task sets the call's cancel token.

    `on_update` receives partial results on that thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    cancel = threading.Event()
    context = Context(tool_call_id, cancel, on_update)
    variables = contextvars.copy_context()

    def settle(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        try:
            result = variables.run(run_tool, tool, arguments, context)
        except BaseException as error:  # whatever a foreign tool raises, the call gets a result
            result = Result(f"{tool.name} failed: {type(error).__name__}", is_error=True)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing awaits the result
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name=f"tool-{tool.name}", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        cancel.set()
        raise


def blocks_for_model(result: Result) -> list[Block]:
    """Return the blocks to send to a model: the content, then one `[key: value]` line per item of `meta`."""
    lines = [f"[{key}: {value}]" for key, value in sorted((result.meta or {}).items())]
    return [*result.content, *([TextBlock("\n".join(lines))] if lines else [])]


def text_for_model(result: Result) -> str:
    """Return the texts of `blocks_for_model`, joined by line feeds."""
    return "\n".join(block.text for block in blocks_for_model(result) if isinstance(block, TextBlock))


def _block(item: Any) -> Block:
    if item.type == "image":
        return ImageBlock(item.data, item.mime_type)
    return TextBlock(item.text)


def _simplest(
    blocks: list[Block], image: Callable[[ImageBlock], Any], text: Callable[[str], Any] = str
) -> str | list[Any]:
    """One string when there is only text, else the list of blocks in the framework's form."""
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
                raise ToolFailure(text_for_model(result))
            return f"Error: {text_for_model(result)}"
        is_text = all(block.type == "text" for block in result.content)
        return text_for_model(result) if is_text else blocks_for_model(result)

    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = _docstring(tool)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
    function.__annotations__["return"] = str
    return function


def _signature(schema: JsonMapping) -> inspect.Signature:
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
                annotation=Optional[_annotation(item)],  # noqa: UP045 _annotation returns a value
            )
            for name, item in properties
        ],
        return_annotation=str,
    )


_PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


def _annotation(schema: JsonMapping) -> Any:
    """The Python type that a JSON Schema describes."""
    if choices := schema.get("enum"):
        return Literal[tuple(choices)]
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return Union[tuple(_annotation(branch) for branch in branches)]  # noqa: UP007 the tuple is computed
    kind = schema.get("type")
    if kind == "array":
        return list[_annotation(schema.get("items", {}))]  # type: ignore[misc]
    if kind == "object":
        return JsonObject
    return _PLAIN.get(kind, Any) if isinstance(kind, str) else Any


def _docstring(tool: AnyTool) -> str:
    """The description, then the arguments in the style that most frameworks parse into a schema."""
    lines = [
        f"    {name}: {' '.join(item.get('description', '').split()) or name}"
        for name, item in tool.parameters["properties"].items()
    ]
    return "\n".join([tool.description, *(["", "Args:", *lines] if lines else [])])
