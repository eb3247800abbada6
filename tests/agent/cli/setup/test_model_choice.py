"""Which model a command uses."""

from __future__ import annotations

import pytest

from agent.cli.setup.model_choice import choose_name, no_model_text, open_model
from agent.errors import ConfigurationError
from agent.models import PROVIDERS


def test_the_option_comes_before_the_variable_and_that_before_keys() -> None:
    environ = {"AGENT_MODEL": "b/c", "OPENAI_API_KEY": "sk-1"}
    assert choose_name("a/b", environ) == "a/b"
    assert choose_name(None, environ) == "b/c"
    assert choose_name(None, {"OPENAI_API_KEY": "sk-1"}) == f"openai/{PROVIDERS['openai'].default_model}"
    assert choose_name(None, {"OPENAI_API_KEY": " "}) is None
    assert choose_name(None, {}) is None


def test_the_error_names_the_variables() -> None:
    assert "OPENAI_API_KEY" in no_model_text()
    assert "agent demo" in no_model_text()


@pytest.mark.parametrize(
    ("base_url", "environ", "expected"),
    [
        ("http://a", {"LOCAL_BASE_URL": "http://b"}, "http://a"),
        ("", {"LOCAL_BASE_URL": "http://b"}, "http://b"),
    ],
)
def test_the_base_url_of_the_option_comes_before_the_variable(
    base_url: str, environ: dict[str, str], expected: str
) -> None:
    with open_model("local/x", base_url, environ) as model:
        assert model.base_url == expected


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "file:///etc/passwd"])
def test_a_base_url_with_another_scheme_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http://"), open_model("local/x", url, {}):
        pass
