"""Bedrock's OpenAI-compatible endpoint: the URL, and requests with a key or a signature."""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import replace

import pytest
from support.completions import HELLO
from support.sse_server import SseServer

from agent import Agent, get_model
from agent.errors import ConfigurationError
from agent.providers.endpoint import endpoint
from agent.runs import RunResult

MODEL = get_model("bedrock/openai.gpt-oss-120b-1:0")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/does/not/exist")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/does/not/exist")


def _ask(server: SseServer) -> RunResult:
    server.play(*HELLO)
    with Agent(replace(MODEL, base_url=server.url)) as agent:
        return agent.prompt("hi").result(20)


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_address_is_that_of_the_region(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "eu-west-1")
    expected = "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions"
    assert endpoint(MODEL, "/chat/completions") == expected


def test_without_a_region_the_error_names_the_variables() -> None:
    with pytest.raises(ConfigurationError, match="AWS_REGION or AWS_DEFAULT_REGION"):
        endpoint(MODEL, "/chat/completions")


def test_a_bedrock_key_goes_out_as_a_bearer_token(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "ABSK-key")
    assert _ask(sse_server).text == "hello"
    assert sse_server.requests[0].headers["authorization"] == "Bearer ABSK-key"


def test_without_a_key_the_request_is_signed(sse_server: SseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = pytest.importorskip("botocore.auth")
    awsrequest = pytest.importorskip("botocore.awsrequest")
    credentials = pytest.importorskip("botocore.credentials")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-example")
    assert _ask(sse_server).text == "hello"
    request = sse_server.requests[0]
    scope = r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/us-east-1/bedrock/aws4_request, "
    sent = request.headers["authorization"]
    assert re.match(scope, sent)
    # The server's side of it: the same signature over what really arrived.
    again = awsrequest.AWSRequest("POST", f"{sse_server.url}{request.path}", data=request.body)
    again.context["timestamp"] = request.headers["x-amz-date"]
    again.headers["X-Amz-Date"] = request.headers["x-amz-date"]
    signer = auth.SigV4Auth(credentials.Credentials("AKIDEXAMPLE", "secret-example"), "bedrock", "us-east-1")
    signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    assert sent.endswith(f"Signature={signature}")
    assert hashlib.sha256(request.body).hexdigest() in signer.canonical_request(again)


def test_without_key_and_credentials_the_error_names_what_to_set(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore.session")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)
    result = _ask(sse_server)
    assert result.stop == "error"
    assert "AWS_BEARER_TOKEN_BEDROCK" in result.error
    assert sse_server.requests == []


def test_without_botocore_the_error_names_the_extra(
    sse_server: SseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    result = _ask(sse_server)
    assert result.stop == "error"
    assert "steady-agent[bedrock]" in result.error
