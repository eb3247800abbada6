"""The wire format of OpenAI's Chat Completions, which most servers support in one dialect or another."""

from agent.providers.openai_completions.request import FORMAT

__all__ = ["build_request", "stream", "takes_schema"]

stream, build_request, takes_schema = FORMAT.stream, FORMAT.build_request, FORMAT.takes_schema
