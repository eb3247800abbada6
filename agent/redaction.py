"""Keys and tokens taken out of texts that are shown or logged."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Shorter secrets ("x" as the key of a local server) are not replaced: that would garble texts.
_SHORTEST_SECRET = 6

# How keys look: a known prefix, or a long run of letters and digits that is no word, date or path.
_KEY_LIKE = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        (?:sk|pk|rk|gsk|xai|key|ghp|gho|ghu|ghs|glpat|hf|AIza|AKIA|ASIA|eyJ|ya29)[-_.A-Za-z0-9]{8,}
      | (?=[-_A-Za-z0-9]*[0-9])(?=[-_A-Za-z0-9]*[A-Z])(?=[-_A-Za-z0-9]*[a-z])[-_A-Za-z0-9]{20,}
      | (?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{32,}
    )(?:\.[-_A-Za-z0-9]{8,})*[=]{0,2}""",
    re.VERBOSE,
)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets; the longest are replaced first, so that no part of one remains."""
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def without_keys(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets and without whatever else looks like a key.

    For texts of an application, whose keys are not known: in doubt, a word is replaced.
    """
    return _KEY_LIKE.sub("***", redacted(text, secrets))
