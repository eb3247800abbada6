"""Amazon Bedrock's OpenAI-compatible endpoint: Chat Completions in a region, with a key or a signature.

A Bedrock API key (`AWS_BEARER_TOKEN_BEDROCK`, or the result of `get_api_key`) is sent as a bearer token.
Without one the request is signed with the credentials that AWS's own tools would use (environment, profile,
role), by botocore from the extra `[bedrock]`. Bedrock's other formats answer in binary frames and are not
supported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from agent.errors import ConfigurationError
from agent.models import Model

BEDROCK = "bedrock"
KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")

Headers = Callable[[str], Mapping[str, str]]


def region() -> str:
    """The region from the environment; raises ConfigurationError that names the variables."""
    for variable in _REGION_VARIABLES:
        if value := os.environ.get(variable, "").strip():
            return value
    raise ConfigurationError(f"no region for Bedrock: set {' or '.join(_REGION_VARIABLES)}, or a base_url")


def bedrock_url() -> str:
    """The base URL in the region of the environment."""
    return f"https://bedrock-runtime.{region()}.amazonaws.com/openai/v1"


def with_signature(model: Model, url: str, headers: Headers, body: bytes) -> Headers:
    """The headers; for Bedrock without a key, signed at each attempt."""
    if model.provider != BEDROCK:
        return headers

    def signed(key: str) -> Mapping[str, str]:
        plain = headers(key)
        return plain if key else {**plain, **_signature(url, body)}

    return signed


def _signature(url: str, body: bytes) -> dict[str, str]:
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session
    except ImportError:
        raise ConfigurationError(
            f"no key for Bedrock: set {KEY_VARIABLE}, or let requests be signed with AWS credentials by "
            'installing the extra: pip install "steady-agent[bedrock]"'
        ) from None
    credentials = Session().get_credentials()
    if credentials is None:
        raise ConfigurationError(
            f"no key and no AWS credentials for Bedrock: set {KEY_VARIABLE}, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or configure a profile"
        )
    request = AWSRequest("POST", url, data=body)
    SigV4Auth(credentials.get_frozen_credentials(), BEDROCK, region()).add_auth(request)
    return dict(request.headers.items())
