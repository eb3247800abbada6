"""Make agent/models.json from the model table that the package `litellm` ships (MIT).

    python scripts/refresh_models.py            # needs pip and the package registry

Only the table is taken: the wheel is downloaded and read as an archive, never installed or run. Kept are the
chat models with tools of the providers below, but no fine-tunes, no audio, none gone for half a year.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "agent" / "models.json"
TABLE = "litellm/model_prices_and_context_window_backup.json"

# The name there -> (the provider here, its wire format)
PROVIDERS = {
    "anthropic": ("anthropic", "anthropic-messages"),
    "openai": ("openai", "openai-completions"),
    "gemini": ("google", "google-generative-ai"),
    "deepseek": ("deepseek", "openai-completions"),
    "groq": ("groq", "openai-completions"),
}
_NOT_CHAT = re.compile(
    r"audio|tts|image|lyria|live|realtime|search|computer-use|research|robotics|^ft:|chat-latest|cyber|omni|gemma"
)
_KEPT_AFTER_THE_END = datetime.timedelta(days=180)
_RESPONSES_ONLY = "openai-responses"


def main() -> None:
    """Download, filter, write."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder, "litellm"]
        subprocess.run(pip, check=True)
        (wheel,) = Path(folder).glob("litellm-*.whl")
        version = wheel.name.split("-")[1]
        with zipfile.ZipFile(wheel) as archive:
            table: dict[str, dict[str, Any]] = json.loads(archive.read(TABLE))
    now = datetime.date.today()
    today, oldest = now.isoformat(), (now - _KEPT_AFTER_THE_END).isoformat()
    models = [made for name, entry in sorted(table.items()) if (made := _model(name, entry, oldest))]
    unique = {(model["provider"], model["id"]): model for model in models}
    document = {
        "source": f"litellm {version}, {TABLE.rpartition('/')[2]} (MIT, Copyright Berri AI)",
        "date": today,
        "units": "context and output in tokens, prices in US dollars per million tokens",
        "models": list(unique.values()),
    }
    lines = json.dumps(document, indent=0, ensure_ascii=False).replace("\n", " ")
    TARGET.write_text(lines.replace('{ "id"', '\n{ "id"') + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(unique)} models from litellm {version}")


def _model(name: str, entry: dict[str, Any], oldest: str) -> dict[str, Any] | None:
    known = PROVIDERS.get(entry.get("litellm_provider", ""))
    id = name.partition("/")[2] if "/" in name else name
    if known is None or entry.get("mode") not in ("chat", "responses") or _NOT_CHAT.search(name):
        return None
    if entry.get("deprecation_date", "9999") < oldest or not entry.get("supports_function_calling"):
        return None
    provider, api = known
    if provider == "openai" and "/v1/chat/completions" not in entry.get(
        "supported_endpoints", ["/v1/chat/completions"]
    ):
        api = _RESPONSES_ONLY
    if provider == "groq":
        id = name.partition("/")[2]
    made: dict[str, Any] = {
        "id": id,
        "provider": provider,
        "api": api,
        "context": entry.get("max_input_tokens") or 128_000,
        "output": entry.get("max_output_tokens") or 8_192,
        "price": _price(entry),
        "image": bool(entry.get("supports_vision")),
        "levels": _levels(provider, entry),
    }
    if entry.get("supports_adaptive_thinking"):
        made["adaptive"] = "always" if entry.get("thinking_always_on") else "optional"
    if made["price"] is not None and (tiers := _tiers(entry)):
        made["tiers"] = tiers
    if "deprecation_date" in entry:
        made["until"] = entry["deprecation_date"]
    return made


# The names of the prices there, in the order of the fields of `ModelCost`.
_PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
)
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def _price(entry: dict[str, Any], suffix: str = "") -> list[float | None] | None:
    """Input, output, cache read, cache write, write for an hour; None when input or output is unknown.

    Another unknown one is None, or left out at the end.
    """
    found = [entry.get(name + suffix) for name in _PRICES]
    if found[0] is None or found[1] is None:
        return None
    prices = [None if price is None else round(price * 1_000_000, 6) for price in found]
    while prices[-1] is None:
        prices.pop()
    return prices


def _tiers(entry: dict[str, Any]) -> list[list[Any]]:
    """The prices of long prompts: the tokens above which they count, and the price."""
    found = []
    for name in entry:
        if match := _TIER.fullmatch(name):
            price = _price(entry, f"_above_{match[1]}k_tokens")
            if price is not None:
                found.append([int(match[1]) * 1000, price])
    return sorted(found)


def _levels(provider: str, entry: dict[str, Any]) -> list[str]:
    if not entry.get("supports_reasoning"):
        return ["off"]
    levels = ["low", "medium", "high"]
    if entry.get("supports_minimal_reasoning_effort"):
        levels.insert(0, "minimal")
    # Models of OpenAI think unless they accept the effort `none`.
    if entry.get("supports_none_reasoning_effort") or (
        provider != "openai" and not entry.get("thinking_always_on")
    ):
        levels.insert(0, "off")
    if entry.get("supports_xhigh_reasoning_effort"):
        levels.append("xhigh")
    if entry.get("supports_max_reasoning_effort"):
        levels.append("max")
    return levels


if __name__ == "__main__":
    main()
