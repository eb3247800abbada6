"""Any history at all, for the tests that show what no history can break."""

from __future__ import annotations

from hypothesis import strategies as st

from agent.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

# Few ids, so that they are used again; odd ones among them.
IDS = st.sampled_from(["a", "b", "call_0", "call_0_2", "", "x|fc_1", "x|fc_2", "é/é", "y" * 60, "y" * 61])
# Blank, control, astral and half characters.
TEXTS = st.text(alphabet=st.sampled_from('a \n\t\\"\x00é\u2028😀\ud800\udfff\ud83d\ude00'), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["ls", "foo.bar baz", "", "é" * 70, "n\ud800"])
IMAGES = st.builds(ImageContent, st.just("aGk="), st.just("image/png"))
USER_CONTENT = TEXTS | st.lists(st.builds(TextContent, TEXTS) | IMAGES, max_size=3)
ARGUMENTS = st.dictionaries(TEXTS, JSON, max_size=2)
TEXT_BLOCKS = (
    st.builds(TextContent, TEXTS)
    | st.builds(ThinkingContent, TEXTS, st.none() | st.just("reasoning_content"), st.booleans())
    | st.builds(ToolCall, IDS, NAMES, ARGUMENTS, st.none() | st.just('{"d":1}'))
)
SERVER = st.builds(ServerContent, st.just("search"), st.just("{}"), st.none() | TEXTS)
RESULTS = st.builds(
    ToolResultMessage,
    IDS,
    NAMES,
    st.lists(st.builds(TextContent, TEXTS) | IMAGES, max_size=2),
    st.booleans(),
    meta=st.none() | st.dictionaries(st.just("hash"), TEXTS, max_size=1),
)


def histories(
    api: str, provider: str, model: str, server: st.SearchStrategy[ServerContent] = SERVER
) -> st.SearchStrategy[list[Message]]:
    """Histories of turns by this model, by others, and by this one under other names."""
    turns = st.builds(
        AssistantMessage,
        st.lists(TEXT_BLOCKS | server, max_size=4),
        st.just(api) | st.just("other-api"),
        st.just(provider) | st.just("other"),
        st.just(model) | st.just("older"),
        stop_reason=st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
    )
    users = st.builds(UserMessage, USER_CONTENT)
    return st.lists(users | turns | RESULTS | st.builds(CustomMessage, st.just("note")), max_size=12)
