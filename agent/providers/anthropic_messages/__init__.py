"""The wire format of Anthropic's Messages, which Claude and some other servers speak.

`stream` is its stream function, `build_request` what it sends, `takes_schema` tells whether a request carries
the schema of its answer.
"""

from agent.providers.anthropic_messages.request import build_request, stream, takes_schema

__all__ = ["build_request", "stream", "takes_schema"]
