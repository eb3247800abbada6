"""The sources that an answer cites, as lines to show below it."""

from __future__ import annotations

from agent.cli.display.clean_text import one_line
from agent.messages import AssistantMessage

_MOST = 20


def source_lines(message: AssistantMessage) -> list[str]:
    """A heading, and a line with title and address for each source; empty without sources."""
    sources = message.sources
    if not sources:
        return []
    lines = [f"  {one_line(source.title)}  {one_line(source.url)}".rstrip() for source in sources[:_MOST]]
    more = [f"  ... {len(sources) - _MOST} more"] if len(sources) > _MOST else []
    return ["Sources:", *lines, *more]
