"""A conversation with content that its provider refuses continues."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image
from support.formats import FORMATS, Format
from support.sse_server import SseServer

from agent import Agent, RunError
from agent.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_to_json,
)
from agent.retry import RetryPolicy

PICTURE = base64.b64encode(b"no picture at all, whatever it says").decode()
IMAGE = ImageContent(PICTURE, "image/png")
SHOWN = UserMessage([TextContent("what is this?"), IMAGE])

# How servers of each format word it.
REFUSALS = [
    ("anthropic-messages", "Could not process image"),
    ("anthropic-messages", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 > 5"),
    (
        "anthropic-messages",
        "messages.13.content.10.image.source.base64.data: At least one of the image dimensions exceed max "
        "allowed size for many-image requests: 2000 pixels",
    ),
    (
        "anthropic-messages",
        "messages.1.content.8.image.source.base64.data: Image format image/png not supported",
    ),
    (
        "anthropic-messages",
        "messages.0.content.1.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png'",
    ),
    ("anthropic-messages", "Image does not match the provided media type image/png"),
    ("anthropic-messages", "Too much media: 0 document pages + 101 images > 100"),
    (
        "openai-completions",
        "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
        "['png', 'jpeg', 'gif', 'webp'].",
    ),
    ("openai-completions", "Invalid content type. image_url is only supported by certain models."),
    ("openai-completions", "messages[1]: unknown variant `image_url`, expected `text` at line 1 column 90"),
    ("openai-completions", "At most 1 image(s) may be provided in one request."),
    ("openai-completions", "m is not a multimodal model"),
    ("openai-completions", "图片输入格式/解析错误"),
    (
        "openai-responses",
        "The image data you provided does not represent a valid image. Please check your input and try again "
        "with one of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].",
    ),
    ("openai-responses", "Failed to download image from input[0].content[1].image_url"),
    ("google-generative-ai", "Unable to process input image. Please retry or report in https://example.com"),
    ("google-generative-ai", "Provided image is not valid."),
    ("google-generative-ai", "Unsupported MIME type: image/tiff"),
    (
        "google-generative-ai",
        "Invalid value at 'contents[0].parts[1].inline_data.data' (TYPE_BYTES), Base64 decoding failed",
    ),
]

OTHERS = [
    "messages: roles must alternate",
    "max_tokens: 99999 > 8192, which is the maximum allowed",
    "tools.0.input_schema: 'read an image' is not valid under any of the given schemas",
    "Invalid schema for function 'image_resize': invalid format",
    "Unrecognized request argument supplied: image",
    "temperature: must be between 0 and 1",
]


def reporting(calls: list[str]) -> dict[str, Any]:
    return {"on_retry": lambda attempt, delay, text: calls.append(text)}


def bodies(server: SseServer) -> list[str]:
    return [request.body.decode() for request in server.requests]


@pytest.mark.parametrize(("api", "text"), REFUSALS, ids=lambda value: value[:40])
def test_a_refused_image_is_left_out_of_a_second_request(
    api: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """I09"""
    found, calls = FORMATS[api], list[str]()
    before = message_to_json(SHOWN)
    with SseServer() as server, caplog.at_level(logging.WARNING, "agent"):
        found.refuse(server, 400, text)
        found.greet(server)
        answer = found.ask(server, [replace(SHOWN)], **reporting(calls))
        first, second = bodies(server)
    assert (answer.text, answer.stop_reason) == ("hello", "stop")
    assert PICTURE in first
    assert PICTURE not in second
    assert "could not process it" in second
    assert "what is this?" in second
    assert message_to_json(SHOWN) == before
    assert [text in call and "without the image" in call for call in calls] == [True]
    assert "without the image" in caplog.text


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("text", OTHERS)
def test_another_refusal_strips_nothing(api: str, text: str) -> None:
    """I09"""
    found = FORMATS[api]
    with SseServer() as server:
        found.refuse(server, 400, text)
        answer = found.ask(server, [SHOWN])
        assert len(server.requests) == 1
    assert answer.stop_reason == "error"
    assert text in answer.error_message


@pytest.mark.parametrize("api", FORMATS)
def test_a_request_without_images_is_made_once(api: str) -> None:
    found = FORMATS[api]
    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        assert found.ask(server).stop_reason == "error"
        assert len(server.requests) == 1


@pytest.mark.parametrize("api", FORMATS)
def test_it_is_tried_once(api: str) -> None:
    found = FORMATS[api]
    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        found.refuse(server, 400, "Could not process image, again")
        answer = found.ask(server, [SHOWN])
        assert len(server.requests) == 2
    assert "again" in answer.error_message


@pytest.mark.parametrize("api", FORMATS)
def test_the_stored_history_keeps_the_image_and_later_turns_ask_once(api: str) -> None:
    """I09"""
    found = FORMATS[api]
    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        for _ in range(2):
            found.greet(server)
        model = replace(found.model, base_url=server.url)
        with Agent(model, get_api_key=lambda provider: "key-123456") as agent:
            assert agent.run("what is this?", images=[IMAGE]).text == "hello"
            assert agent.run("and now?").text == "hello"
            stored: Any = agent.state.messages[0]
        assert [PICTURE in body for body in bodies(server)] == [True, False, False]
    assert stored.content[-1] == IMAGE


def test_images_that_were_answered_before_are_shown_again() -> None:
    found = FORMATS["openai-completions"]
    seen, poison = ImageContent("Z29vZA==", "image/png"), ImageContent("YmFk", "image/png")
    with SseServer() as server:
        found.greet(server)
        found.refuse(server, 400, "Could not process image")
        for _ in range(2):
            found.greet(server)
        with Agent(replace(found.model, base_url=server.url)) as agent:
            for prompt, image in (("a", [seen]), ("b", [poison]), ("c", [])):
                agent.run(prompt, images=image)
        assert [seen.data in body for body in bodies(server)] == [True, True, True, True]
        assert [poison.data in body for body in bodies(server)] == [False, True, False, False]


def test_another_model_is_shown_the_image() -> None:
    found, other = FORMATS["openai-completions"], replace(FORMATS["openai-completions"].model, id="other")
    history: list[Message] = [replace(SHOWN)]
    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        for _ in range(2):
            found.greet(server)
        found.ask(server, history)
        found.ask(server, history, model=other)
        assert PICTURE in bodies(server)[-1]


@pytest.mark.parametrize("api", FORMATS)
def test_images_of_tool_results_are_left_out_too(api: str) -> None:
    found = FORMATS[api]
    call = AssistantMessage([ToolCall("c1", "look", {})], "a", "p", "m", stop_reason="toolUse")
    history: list[Message] = [
        UserMessage("go"),
        call,
        ToolResultMessage("c1", "look", [TextContent("seen"), IMAGE]),
    ]
    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        found.greet(server)
        assert found.ask(server, history).text == "hello"
        assert [PICTURE in body for body in bodies(server)] == [True, False]


@pytest.mark.parametrize("api", FORMATS)
def test_a_body_too_large_because_of_its_images_goes_without_them(api: str) -> None:
    found = FORMATS[api]
    large = UserMessage([TextContent("hm"), ImageContent("QUJD" * 5000, "image/png")])
    with SseServer() as server:
        server.play("<html>413 Request Entity Too Large</html>", status=413)
        found.greet(server)
        assert found.ask(server, [large]).text == "hello"


def test_a_body_too_large_because_of_its_text_is_an_error() -> None:
    found = FORMATS["openai-completions"]
    with SseServer() as server:
        server.play("<html>413 Request Entity Too Large</html>", status=413)
        history = [UserMessage([TextContent("long " * 5000), IMAGE])]
        assert found.ask(server, history).stop_reason == "error"
        assert len(server.requests) == 1


def test_an_on_retry_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    found = FORMATS["openai-completions"]

    def broken(*arguments: object) -> None:
        raise ValueError("no")

    with SseServer() as server:
        found.refuse(server, 400, "Could not process image")
        found.greet(server)
        assert found.ask(server, [SHOWN], on_retry=broken).text == "hello"
    assert "on_retry failed" in caplog.text


def test_an_unrelated_refusal_ends_the_run_with_its_text() -> None:
    found = FORMATS["openai-completions"]
    with SseServer() as server:
        found.refuse(server, 400, "roles must alternate")
        model = replace(found.model, base_url=server.url)
        with (
            Agent(model, retry=RetryPolicy((), (), (), ())) as agent,
            pytest.raises(RunError, match="alternate"),
        ):
            agent.run("hm", images=[IMAGE])


# --- signed blocks ---------------------------------------------------------------------------------------


def thought(found: Format, signature: str) -> Sequence[Any]:
    model = found.model
    turn = AssistantMessage(
        [ThinkingContent("I wonder.", signature), TextContent("So.")], model.api, model.provider, model.id
    )
    return [UserMessage("think"), turn, UserMessage("go on")]


REASONING = json.dumps({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2lnbmVk"})


@pytest.mark.parametrize(
    ("api", "signature", "text"),
    [
        (
            "anthropic-messages",
            "c2lnbmVk",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (
            "anthropic-messages",
            "c2lnbmVk",
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
            "cannot be modified. These blocks must remain as they were in the original response.",
        ),
        (
            "openai-responses",
            REASONING,
            "The encrypted content c2lnbmVk could not be verified. Reason: it could not be decrypted.",
        ),
        (
            "openai-responses",
            REASONING,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        ),
        ("google-generative-ai", "c2lnbmVk", "Thought signature is not valid."),
    ],
)
def test_a_refused_signature_is_left_out_of_a_second_request(api: str, signature: str, text: str) -> None:
    found = FORMATS[api]
    history = thought(found, signature)
    model = replace(found.model, reasoning=True)
    with SseServer() as server:
        found.refuse(server, 400, text)
        found.greet(server)
        found.greet(server)
        assert found.ask(server, history, model=model).text == "hello"
        assert found.ask(server, history, model=model).text == "hello"
        assert ["c2lnbmVk" in body for body in bodies(server)] == [True, False, False]
        assert "I wonder." in bodies(server)[1] or api == "openai-responses"
    assert history[1].content[0].signature == signature


# --- only the image at fault ---


def picture(form: str, color: int = 0) -> ImageContent:
    """A small valid image."""
    out = io.BytesIO()
    Image.new("RGB", (4, 4), (color, 0, 0)).save(out, form)
    return ImageContent(base64.b64encode(out.getvalue()).decode(), f"image/{form.lower()}")


PNG, WEBP, JPEG = picture("PNG"), picture("WEBP"), picture("JPEG")
BROKEN = ImageContent(picture("PNG", 99).data[:-40], "image/png")
ALL = [PNG, WEBP, JPEG, BROKEN]


@pytest.mark.parametrize(
    ("api", "text", "dropped"),
    [
        ("google-generative-ai", "Unsupported MIME type: image/webp", [WEBP]),
        ("anthropic-messages", "Could not process image", [BROKEN]),
        (
            "anthropic-messages",
            "messages.0.content.2.image.source.base64: image exceeds 5 MB maximum",
            [WEBP],
        ),
        ("anthropic-messages", "messages.0.content.3.image.source.base64.data: invalid image", [JPEG]),
        (
            "anthropic-messages",
            "media_type: Input should be 'image/jpeg', 'image/png' or 'image/gif', no other image is valid",
            [WEBP],
        ),
        ("openai-completions", "messages[0].content[1].image_url: invalid image", [PNG]),
        ("openai-responses", "Failed to download image from input[0].content[3]", [JPEG]),
        ("google-generative-ai", "Invalid value at 'contents[0].parts[2].inline_data.data'", [WEBP]),
    ],
)
def test_only_the_image_at_fault_is_left_out(api: str, text: str, dropped: list[ImageContent]) -> None:
    found = FORMATS[api]
    message = UserMessage([TextContent("look"), *ALL])
    with SseServer() as server:
        found.refuse(server, 400, text)
        found.greet(server)
        found.greet(server)
        for _ in range(2):
            assert found.ask(server, [message]).text == "hello"
        first, second, third = bodies(server)
    assert [image for image in ALL if image.data not in first] == []
    for body in (second, third):
        assert [image for image in ALL if image.data not in body] == dropped


def test_images_are_left_out_step_by_step_while_the_server_blames_them() -> None:
    found = FORMATS["openai-completions"]
    old, first, second = picture("PNG", 1), picture("PNG", 2), picture("PNG", 3)
    history: list[Message] = [
        UserMessage([old]),
        AssistantMessage([TextContent("seen")], found.api, "local", "m"),
        UserMessage([first, second]),
    ]
    with SseServer() as server:
        for _ in range(2):
            found.refuse(server, 400, "invalid image")
        for _ in range(2):
            found.greet(server)
        for _ in range(2):
            assert found.ask(server, history).text == "hello"
        left = [[image.data in body for image in (old, first, second)] for body in bodies(server)]
    assert left == [[True] * 3, [True, False, False], [False] * 3, [False] * 3]


def test_an_error_of_another_kind_ends_the_tries() -> None:
    found = FORMATS["openai-completions"]
    with SseServer() as server:
        found.refuse(server, 400, "invalid image")
        found.refuse(server, 400, "no such model")
        answer = found.ask(server, [UserMessage([BROKEN, PNG])])
        assert len(server.requests) == 2
    assert "no such model" in answer.error_message


@pytest.mark.parametrize("place", ["messages.99.content.1", "messages.x", "messages[", "image/"])
def test_an_odd_place_in_the_error_does_no_harm(place: str) -> None:
    found = FORMATS["anthropic-messages"]
    with SseServer() as server:
        found.refuse(server, 400, f"{place}: invalid image")
        found.greet(server)
        assert found.ask(server, [UserMessage([BROKEN, PNG])]).text == "hello"
        assert PNG.data in bodies(server)[1]
