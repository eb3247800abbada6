"""The wire format of OpenAI's Chat Completions, which most servers speak in one dialect or another.

`stream` is its stream function, `build_request` what it sends, `takes_schema` tells whether a request carries
the schema of its answer.
"""

from agent.providers.openai_completions.request import build_request, stream, takes_schema

__all__ = ["build_request", "stream", "takes_schema"]
