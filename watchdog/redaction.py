"""Text from outside, made fit to be kept and shown: credentials out, control characters out.

Logs of uv, git and of kernels are stored and published; a password in an index URL must not travel with them.
"""

from __future__ import annotations

import re

HIDDEN = "****"

# Each pattern keeps its group "kept" and hides the rest. All repeat over bounded or non-overlapping parts, so that a
# hostile log costs linear time. Compilers and jax speak of tokens and signatures too, hence the narrow assignments.
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        # user:password@ or token@ in a URL; the last @ before the path ends it, as passwords may hold one
        r"(?P<kept>://)[^\s/'\"<>`]{1,1024}(?=@)",
        # ?token=…, &X-Amz-Signature=…
        r"(?i)(?P<kept>[?&][\w.-]{0,64}(?:token|secret|passw(?:or)?d|key|sig|auth|credential)[\w.-]{0,32}=)[^\s&#'\"<>`]+",
        # Authorization: Bearer …, to the end of the line
        r"(?i)(?P<kept>\b(?:proxy-)?authorization['\"]?\s{0,8}[:=]\s{0,8})[^\r\n]+",
        # GITHUB_TOKEN=…
        r"(?P<kept>\b[A-Z0-9_]{0,64}(?:TOKEN|SECRET|PASSWO?R?D|API_?KEY|(?:ACCESS|PRIVATE)_KEY)[A-Z0-9_]{0,32}=)\S+",
        # password: …, "client_secret": "…"
        (
            r"(?i)(?P<kept>(?:passwo?r?d|api_?key|client_secret|secret_key|(?:access|auth)_token)"
            r"['\"]?\s{0,8}[:=]\s{0,8}['\"]?)[^\s'\"&,;]+"
        ),
    )
) + tuple(
    re.compile(rf"(?P<kept>)(?<![A-Za-z0-9_]){shape}")
    for shape in (
        r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
        r"github_pat_[A-Za-z0-9_]{20,}",
        r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
        r"pypi-[A-Za-z0-9_-]{32,}",  # PyPI
        r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
        r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
        r"AIza[A-Za-z0-9_-]{30,}",  # Google API key
        r"ya29\.[A-Za-z0-9_.-]{20,}",  # Google access token
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
        r"sk-[A-Za-z0-9_-]{20,}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JSON web token
    )
)

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands, such as links and titles
    r"|\x1b[ -/]*[0-~]?"  # two-character escapes, and a lone escape
)
_LINE_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters, but not tab and newline
    r"\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"  # bidirectional and zero-width characters
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def redact(text: str) -> str:
    """`text` without credentials: URLs, query strings, headers, assignments and well-known shapes of tokens."""
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<kept>{HIDDEN}", text)
    return text


def plain(text: str) -> str:
    """`text` without terminal sequences, control, bidirectional and zero-width characters; lines end in newlines.

    What cannot be encoded as UTF-8 becomes a question mark in a diamond.
    """
    text = _LINE_BREAKS.sub("\n", _ANSI.sub("", text))
    return _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", text))
