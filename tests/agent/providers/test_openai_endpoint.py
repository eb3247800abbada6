"""Both of OpenAI's formats on Azure: request line and credentials."""

from __future__ import annotations

from typing import Any

import pytest
from support import completions, responses
from support.completions import HI
from support.sse_server import SseServer

from agent.errors import ConfigurationError
from agent.models import Model, get_model
from agent.providers.credentials import api_key
from agent.providers.openai_completions import build_request
from agent.providers.openai_endpoint import CHAT_PATH, RESPONSES_PATH, openai_url
from agent.stream import AgentContext, StreamOptions

CHAT, RESPONSES = "openai-completions", "openai-responses"
# What a token of Entra ID looks like: header, claims and signature.
TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln"


def play(server: SseServer, api: str) -> None:
    server.play(*(completions.HELLO if api == CHAT else responses.HELLO))


def ask(server: SseServer, api: str, base: str = "", **more: Any) -> str:
    play(server, api)
    model = Model("my-gpt", api, "azure", server.url + base)
    with_api = completions.answer if api == CHAT else responses.answer
    message = with_api(model, HI, completions.options(**more))
    return message.text or message.error_message


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("api", "line"),
    [
        (CHAT, "/openai/v1/chat/completions?api-version=v1"),
        (RESPONSES, "/openai/v1/responses?api-version=v1"),
    ],
)
@pytest.mark.parametrize("base", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
def test_a_resource_is_asked_at_its_v1_address(sse_server: SseServer, api: str, line: str, base: str) -> None:
    assert ask(sse_server, api, base, api_key="k3y") == "hello"
    (got,) = sse_server.requests
    assert (got.method, got.path) == ("POST", line)
    assert got.headers["api-key"] == "k3y"
    assert "authorization" not in got.headers
    assert got.json["model"] == "my-gpt"


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_token_of_entra_id_is_a_bearer_token(sse_server: SseServer, api: str) -> None:
    assert ask(sse_server, api, api_key=TOKEN) == "hello"
    (got,) = sse_server.requests
    assert got.headers["authorization"] == f"Bearer {TOKEN}"
    assert "api-key" not in got.headers


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_the_key_is_in_no_error_text(sse_server: SseServer, api: str) -> None:
    sse_server.play('{"error":{"message":"wrong key k3y-secret"}}', status=401)
    assert ask(sse_server, api, api_key="k3y-secret").startswith("401 wrong key *** (")


HOST = "https://x.openai.azure.com"


@pytest.mark.parametrize(
    ("base", "chat", "responses_"),
    [
        ("?api-version=preview", "/openai/v1/chat/completions", "/openai/v1/responses"),
        (
            "?api-version=2024-10-21",
            "/openai/deployments/my%2Fgpt/chat/completions",
            "/openai/responses",
        ),
        (
            "/openai/deployments/other?api-version=2024-10-21",
            "/openai/deployments/other/chat/completions",
            "/openai/deployments/other/responses",
        ),
        ("/gate/v1?api-version=v1", "/gate/v1/chat/completions", "/gate/v1/responses"),
    ],
)
def test_a_version_of_ones_own_is_kept(base: str, chat: str, responses_: str) -> None:
    model = Model("my/gpt", CHAT, "azure", HOST + base)
    query = base.partition("?")[2]
    assert openai_url(model, CHAT_PATH) == f"{HOST}{chat}?{query}"
    assert openai_url(model, RESPONSES_PATH) == f"{HOST}{responses_}?{query}"


def test_other_parts_of_the_query_and_a_whole_path_stay() -> None:
    url = f"{HOST}/openai/v1/responses?a=1"
    assert openai_url(Model("m", RESPONSES, "azure", url), RESPONSES_PATH) == f"{url}&api-version=v1"


def test_a_deployment_without_a_version_says_what_to_add() -> None:
    model = Model("m", CHAT, "azure", f"{HOST}/openai/deployments/m")
    with pytest.raises(ConfigurationError, match=r"deployments/m\?api-version=2024-10-21"):
        openai_url(model, CHAT_PATH)


def test_azure_models_have_any_name_and_an_address_of_their_own() -> None:
    model = get_model("azure/my-gpt")
    with pytest.raises(ConfigurationError, match='no base_url, and "azure" has no address of its own'):
        openai_url(model, CHAT_PATH)


def test_the_key_is_looked_for_where_azures_own_tools_look(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("m", CHAT, "azure", HOST)
    with pytest.raises(ConfigurationError, match="set AZURE_OPENAI_API_KEY"):
        api_key(model, StreamOptions())
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    assert api_key(model, StreamOptions()) == "k"


def test_azure_is_openai_in_all_else() -> None:
    model = Model("m", CHAT, "azure", "https://gateway.example/openai/v1", reasoning=True)
    body = build_request(model, AgentContext("s"), StreamOptions())
    assert body["store"] is False
    assert body["messages"][0]["role"] == "developer"


def test_openai_itself_has_no_such_query() -> None:
    assert (
        openai_url(Model("m", RESPONSES, "openai"), RESPONSES_PATH) == "https://api.openai.com/v1/responses"
    )
