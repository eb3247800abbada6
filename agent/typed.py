"""A typed result: the model gives its final answer by calling a tool whose parameters are the type's schema.

A tool works on every wire format and beside other tools. An answer in text counts too when it is the JSON of
such a value; any other is discarded and asked for again. Imports pydantic, so it is loaded when first used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from agent.decisions import Candidate, CandidateInfo, RequestUpdate, RunInfo, TurnUpdate
from agent.errors import AgentError, ConfigurationError, ToolError
from agent.hooks import Hooks
from agent.signatures import plain_schema, problems
from agent.stream import AgentContext, StreamOptions
from agent.tools import AgentTool, ToolResult

# A model that misses the schema four times running will not hit it the fifth time.
_RETRIES = 3

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)


class TypedOutput:
    """The typed result of one run: the tool and the hooks that get it, and the value once it is there.

    Used by that run alone; `value` is read when it has ended. Raises ConfigurationError for a type that no
    schema can describe.
    """

    def __init__(self, output_type: Any, taken: Iterable[str] = ()) -> None:
        self.value: Any = None
        self._found = False
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
        self.hooks = Hooks(
            on_request=self._ask_for_it, candidate_answer=self._judge, prepare_turn=self._limit_misses
        )

    def _ask_for_it(self, context: AgentContext, options: StreamOptions) -> None:
        name = self.tool.name
        hint = (
            f"When you are done, give your final answer by calling the tool {name}; text alone is not read."
        )
        context.system_prompt = "\n\n".join(filter(None, (context.system_prompt, hint)))
        # A forced call would switch thinking off with some providers, so it is for models that don't think.
        if [tool.name for tool in context.tools] == [name] and options.reasoning in ("", "off"):
            options.tool_choice = options.tool_choice or name

    def _take(self, arguments: dict[str, Any], context: Any) -> ToolResult:
        try:
            self._set(json.dumps(arguments["value"] if self._wrapped else arguments))
        except KeyError:
            self._misses += 1
            raise ToolError("invalid answer: value is required") from None
        except ValidationError as error:
            self._misses += 1
            raise ToolError(f"invalid answer: {problems(error)}; mend it and call again") from None
        return ToolResult("The answer was taken.", terminate=True)

    def _judge(self, info: CandidateInfo) -> Candidate | None:
        """Accept the JSON of a value, and whatever is said once the value is there."""
        if self._found or info.message.tool_calls:
            return None
        text = info.message.text
        fenced = _FENCED.match(text)
        try:
            self._set(fenced[1] if fenced else text)
            return None
        except ValidationError:
            self._misses += 1
        if self._misses > _RETRIES:
            return Candidate.abort(self._failure())
        name = self.tool.name
        said = f"Your last answer was not read: it was text. Call {name} with the answer as its arguments."
        return Candidate.retry(RequestUpdate(tool_choice=name, system_suffix=said))

    def _limit_misses(self, info: RunInfo) -> TurnUpdate | None:
        return TurnUpdate(error=self._failure()) if self._misses > _RETRIES and not self._found else None

    def _set(self, text: str) -> None:
        self.value = self._adapter.validate_json(text)
        self._found = True

    def _failure(self) -> AgentError:
        return AgentError(f"the model gave no valid typed answer in {self._misses} attempts")


def _described(output_type: Any) -> tuple[TypeAdapter[Any], bool, dict[str, Any]]:
    """What reads such values, whether they are wrapped in an object, and the schema of the arguments."""
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
