"""The wire format of Google's Gemini models, on the Gemini API and on Vertex."""

from agent.providers.google_generative_ai.request import FORMAT

__all__ = ["build_request", "stream", "takes_schema"]

stream, build_request, takes_schema = FORMAT.stream, FORMAT.build_request, FORMAT.takes_schema
