"""The wire format of OpenAI's Responses, without state on the server."""

from agent.providers.openai_responses.request import FORMAT

__all__ = ["build_request", "stream", "takes_schema"]

stream, build_request, takes_schema = FORMAT.stream, FORMAT.build_request, FORMAT.takes_schema
