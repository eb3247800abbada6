"""Typed results: the final answer is JSON of the type's schema, in text or as the arguments of a tool.

Where the server takes a schema for the answer, the model answers in text. Elsewhere it calls a tool whose
parameters are the schema, which works with every server and beside other tools; JSON in text counts too. An
answer that does not match is asked for again. Imports pydantic, so it is loaded when first used.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from agent.errors import AgentError, ConfigurationError, ToolError
from agent.hook_types import Candidate, CandidateInfo, RequestUpdate, RunInfo, TurnUpdate
from agent.hooks import Hooks
from agent.json_values import JsonObject
from agent.models import Model
from agent.stream import AgentContext, StreamOptions
from agent.tools import AgentTool, ToolResult
from agent.tools.signature import plain_schema, problems

# A model that misses the schema four times in a row will not match it the fifth time.
_RETRIES = 3

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)


class TypedOutput:
    """The typed result of one run: the tool and the hooks that get it, and `value` once it is `found`.

    Used by that run alone; `value` is read when it has ended. `takes_schema(model, context, options)` is true
    when a request sends `options.output_schema`; without it every answer goes through the tool. Raises
    ConfigurationError for a type that no schema can describe.
    """

    def __init__(self, output_type: Any, taken: Iterable[str] = ()) -> None:
        self.value: Any = None
        self.takes_schema: Callable[[Model, AgentContext, StreamOptions], bool] | None = None
        self._in_text = False  # the last request sent the schema
        self.found = False
        self._misses = 0
        self._adapter, self._wrapped, schema = _described(output_type)
        names = set(taken)
        name = next(
            n for n in ("final_answer", *(f"final_answer_{i}" for i in range(2, 1000))) if n not in names
        )
        description = (
            "Give the final answer of the whole task by calling this, once, when you are done. "
            "The arguments are the answer."
        )
        self.tool = AgentTool(name, description, schema, self._take)
        self.hooks = Hooks(candidate_answer=self._judge, prepare_turn=self._limit_misses)

    def prepare(
        self, model: Model, context: AgentContext, options: StreamOptions
    ) -> tuple[AgentContext, StreamOptions]:
        """The request, with the schema where it can send one, else with the tool."""
        with_schema = self._with_schema(model, context, options)
        self._in_text = with_schema is not None
        return with_schema or self._with_tool(context, options)

    def _with_schema(
        self, model: Model, context: AgentContext, options: StreamOptions
    ) -> tuple[AgentContext, StreamOptions] | None:
        name = self.tool.name
        # A model that must call something could never answer.
        if self.takes_schema is None or options.tool_choice not in ("", "auto", "none", name):
            return None
        choice = "" if options.tool_choice == name else options.tool_choice
        options = replace(options, tool_choice=choice, output_schema=self.tool.parameters)
        context = replace(context, tools=[tool for tool in context.tools if tool.name != name])
        if not self.takes_schema(model, context, options):
            return None
        hint = "When you are done, give your final answer as JSON of its schema and nothing else."
        return _hinted(context, hint), options

    def _with_tool(self, context: AgentContext, options: StreamOptions) -> tuple[AgentContext, StreamOptions]:
        name = self.tool.name
        hint = (
            f"When you are done, give your final answer by calling the tool {name}; text alone is not read."
        )
        # A forced call would switch thinking off with some providers, so it is for models that don't think.
        if [tool.name for tool in context.tools] == [name] and options.reasoning in ("", "off"):
            options = replace(options, tool_choice=options.tool_choice or name)
        return _hinted(context, hint), options

    def _take(self, arguments: JsonObject, context: Any) -> ToolResult:
        try:
            self._set(json.dumps(arguments["value"] if self._wrapped else arguments))
        except KeyError:
            self._misses += 1
            raise ToolError("invalid answer: value is required") from None
        except ValidationError as error:
            self._misses += 1
            raise ToolError(f"invalid answer: {problems(error)}; fix it and call again") from None
        return ToolResult("The answer was taken.", terminate=True)

    def _judge(self, info: CandidateInfo) -> Candidate | None:
        """Accept the JSON of a value, and any text after the tool has taken the value."""
        if info.message.tool_calls or (self.found and not self._in_text):
            return None
        text = info.message.text
        fenced = _FENCED.match(text)
        try:
            self._set(self._unwrapped(fenced[1] if fenced else text))
            return None
        except ValidationError as error:
            self._misses += 1
            wrong = problems(error)
        if self._misses > _RETRIES:
            return Candidate.abort(self._failure())
        if self._in_text:
            schema = json.dumps(self.tool.parameters, ensure_ascii=False)
            notice = f"Your last answer was not read: {wrong}. Answer in JSON alone, of this schema: {schema}"
            return Candidate.retry(RequestUpdate(system_suffix=notice))
        name = self.tool.name
        notice = f"Your last answer was not read: it was text. Call {name} with the answer as its arguments."
        return Candidate.retry(RequestUpdate(tool_choice=name, system_suffix=notice))

    def _unwrapped(self, text: str) -> str:
        """The JSON of the value itself, where the schema had it inside an object."""
        if self._wrapped and self._in_text:
            with contextlib.suppress(ValueError, RecursionError):
                data = json.loads(text)
                if isinstance(data, dict) and data.keys() == {"value"}:
                    return json.dumps(data["value"])
        return text

    def _limit_misses(self, info: RunInfo) -> TurnUpdate | None:
        return TurnUpdate(error=self._failure()) if self._misses > _RETRIES and not self.found else None

    def _set(self, text: str) -> None:
        self.value = self._adapter.validate_json(text)
        self.found = True

    def _failure(self) -> AgentError:
        return AgentError(f"the model gave no valid typed answer in {self._misses} attempts")


def _hinted(context: AgentContext, hint: str) -> AgentContext:
    return replace(context, system_prompt="\n\n".join(filter(None, (context.system_prompt, hint))))


def _described(output_type: Any) -> tuple[TypeAdapter[Any], bool, JsonObject]:
    """The adapter of the type, whether its values are wrapped in an object, and the schema."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = adapter.json_schema()
        if schema.get("type") == "object":
            return adapter, False, plain_schema(schema)
        # Arguments are always an object; the type's own definitions stay at the top, where they are found.
        wrapper = create_model("Answer", value=(output_type, ...))
        return adapter, True, plain_schema(wrapper.model_json_schema())
    except Exception as error:
        raise ConfigurationError(f"no schema can be made for output_type {output_type!r}: {error}") from error
