"""The wire format of Google's Gemini models, there and on Vertex.

`stream` is its stream function, `build_request` what it sends, `takes_schema` tells whether a request carries
the schema of its answer.
"""

from agent.providers.google_generative_ai.request import build_request, stream, takes_schema

__all__ = ["build_request", "stream", "takes_schema"]
