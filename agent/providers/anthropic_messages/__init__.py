"""The wire format of Anthropic's Messages, which Claude and some other servers support."""

from agent.providers.anthropic_messages.request import FORMAT

__all__ = ["build_request", "stream", "takes_schema"]

stream, build_request, takes_schema = FORMAT.stream, FORMAT.build_request, FORMAT.takes_schema
