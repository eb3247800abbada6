"""Recognises environment variables that hold secrets, by their names and by their values."""

from __future__ import annotations

import functools
import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# A name is split into words; digits count for nothing (`TOKEN2`, `KEY_1`).
_SECRET_WORDS = frozenset(
    """
    APIKEY APIKEYS ACCESSKEY SECRETKEY PRIVATEKEY AUTHKEY AUTHORIZATION COOKIE COOKIES CREDENTIAL
    CREDENTIALS CREDS JWT MNEMONIC PASSCODE PASSPHRASE PASSWORDS SECRETS SSHPASS WEBHOOK WEBHOOKS
    """.split()
)
_SECRET_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD")
# Secret as the last of several words: `SMTP_PASS`, `MYSQL_PWD`, `GITHUB_PAT`, `NPM_AUTH`, `WIFI_PSK`.
_SECRET_LAST = frozenset({"PASS", "PWD", "PW", "PAT", "AUTH", "SK", "PSK"})
# `..._KEY` is secret unless one of these words is before KEY.
_HARMLESS_KEYS = frozenset(
    """
    AUTHORIZED CACHE COMPOSE FOREIGN GROUP HASH HOT INDEX KNOWN META MODIFIER MULTI PARTITION PRIMARY
    PUB PUBLIC RANGE ROW SHORTCUT SORT TRANSLATION UNIQUE
    """.split()
)
# `..._KEYS`, and `..._KEY_...` in the middle of a name, are secret after one of these.
_SECRET_KEYS = frozenset(
    "ACCESS ACCOUNT API AUTH DEPLOY ENCRYPTION LICENSE MASTER PRIVATE SECRET SERVICE SIGNING".split()
)
_SECRET_TOKENS = frozenset({"ACCESS", "API", "AUTH", "BEARER", "REFRESH"})
# The last word says that the value is something else: a path, an address, a number, a name.
_HARMLESS_LAST = frozenset(
    """
    ARN BUDGET CMD COMMAND COUNT DIR DOMAIN ENABLED ENDPOINT EXPIRES EXPIRY FOLDER HOME HOST LENGTH
    LIMIT MODE NAME PATH POLICY PORT PREFIX PROVIDER REGION SIZE SOCK TIMEOUT TTL TYPE URI URL
    """.split()
)
_SECRET_NAME = re.compile(
    r"CONN(?:ECTION)?_?STR(?:ING)?(?:_|$)|^(?:BW|BITWARDEN)_SESSION|^OP_SESSION|AUTH_CONFIG$"
    r"|(?:SEED|RECOVERY|BACKUP)_(?:PHRASE|CODES?)|KUBE_?CONFIG_(?:DATA|BASE)",
    re.IGNORECASE,
)

# Shapes of keys; `agent.testing.redaction` has the same ones.
_SECRET_VALUE = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9_-]) (?:
        sk-[A-Za-z0-9_-]{16,}                                      # OpenAI, Anthropic, OpenRouter, ...
      | AIza[A-Za-z0-9_-]{30,}                                     # Google
      | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{22,}  # GitHub
      | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])                   # AWS
      | xox[abeprs]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}     # Slack
      | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/=]{16,}  # Stripe
      | gl(?:pat|ptt|dt|rt|cbt|ft|soat)-[A-Za-z0-9_.-]{16,}        # GitLab
      | hf_[A-Za-z0-9]{30,}                                        # Hugging Face
      | npm_[A-Za-z0-9]{36}                                        # npm
      | pypi-[A-Za-z0-9_-]{50,}                                    # PyPI
      | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}                 # SendGrid
      | (?:xai|pplx|nvapi|tvly)-[A-Za-z0-9_-]{20,}                 # xAI, Perplexity, NVIDIA, Tavily
      | gsk_[A-Za-z0-9]{20,}                                       # Groq
      | do[oprt]_v1_[a-f0-9]{40,}                                  # DigitalOcean
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]* # JWT
    )
    | -----BEGIN[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY-----
    | \b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@]*:[^\s/@]+@         # an address with a password
    | \b[A-Za-z][A-Za-z0-9+.-]{0,30}://[0-9A-Fa-f]{20,}@           # an address with a key
    | (?i:\b(?:password|pwd|accountkey|sharedaccesskey)\s*=\s*[^\s;,]+)
    """
)


@functools.lru_cache(maxsize=2048)  # the same variables are judged for every command
def is_secret(name: str, value: str) -> bool:
    """Whether an environment variable looks like an API key, a token, a password or the like."""
    return _is_secret_name(name) or _SECRET_VALUE.search(value) is not None


def _is_secret_name(name: str) -> bool:
    if _SECRET_NAME.search(name):
        return True
    words = [word.upper() for word in _WORD.findall(name)]
    if not words:
        return False
    if "WEBHOOK" not in words and words[-1] in _HARMLESS_LAST:
        return False
    if any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    pairs = list(zip(["", *words], words, strict=False))
    if any(
        (word in ("KEY", "KEYS") and before in _SECRET_KEYS)
        or (word == "TOKENS" and before in _SECRET_TOKENS)
        for before, word in pairs
    ):
        return True
    before, last = pairs[-1]
    if last == "KEY":
        return before not in _HARMLESS_KEYS
    return last in _SECRET_LAST and (len(words) > 1 or last == "PASS")
