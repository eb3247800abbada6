"""The wire format of OpenAI's Responses, spoken without state on the server: each request brings it all.

`stream` is its stream function, `build_request` what it sends, `takes_schema` tells whether a request carries
the schema of its answer.
"""

from agent.providers.openai_responses.request import build_request, stream, takes_schema

__all__ = ["build_request", "stream", "takes_schema"]
