"""Credentials and control characters do not survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.redaction import plain, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fetch https://me:s3cret@index.example/simple", "fetch https://****@index.example/simple"),
        ("https://me:p@ss:w0rd@host/x", "https://****@host/x"),
        ("postgresql+psycopg://watch:s3cret@db:5432/w", "postgresql+psycopg://****@db:5432/w"),
        ("git+https://s3cret@host/a.git@v1", "git+https://****@host/a.git@v1"),
        ("GET /a?x=1&access_token=s3cret&y=2", "GET /a?x=1&access_token=****&y=2"),
        ("/blob?X-Amz-Signature=s3cret", "/blob?X-Amz-Signature=****"),
        ("Authorization: Bearer s3cret more\nnext", "Authorization: ****\nnext"),
        ("{'authorization': 'Basic s3cret'}", "{'authorization': ****"),
        ("UV_INDEX_CORP_PASSWORD=s3cret rest", "UV_INDEX_CORP_PASSWORD=**** rest"),
        ('"client_secret": "s3cret", "a": 1', '"client_secret": "****", "a": 1'),
        (f"got ghp_{'a1' * 18}!", "got ****!"),
        (f"got pypi-{'Ab1_' * 10}", "got ****"),
        (f"key AKIA{'A1' * 8}.", "key ****."),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl end", "jwt **** end"),
    ],
)
def test_credentials_are_hidden_and_the_rest_stays(text: str, expected: str) -> None:
    """Each common place of a credential loses it, and nothing else."""
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "%token.1 = token[] after-all()",
        "token = token[] after-all()",
        "unexpected signature: (f32[8,128]) -> f32[8]",
        "https://pypi.example/simple/jax/?format=json",
        "six @ https://files.example/six-1.0-py3-none-any.whl --hash=sha256:00ff",
        "mail a@b.example, see http://a.example/b@c",
        "my_kernel.py:12: KeyError: 'q'",
    ],
)
def test_what_compilers_and_jax_say_is_left_alone(text: str) -> None:
    """Words such as token and signature are no credentials by themselves."""
    assert redact(text) == text


def test_terminal_sequences_go_and_words_stay() -> None:
    """Colours, links, titles and cursor movements disappear; the text they adorn is kept."""
    assert (
        plain("\x1b[1;31merror\x1b[0m: \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b]0;title\x07ok\x1b(B")
        == "error: link ok"
    )


def test_line_breaks_of_every_kind_become_newlines() -> None:
    """A progress bar's carriage returns cannot overwrite what was said before."""
    assert plain("a\r\nb\rc\u2028d\te") == "a\nb\nc\nd\te"


def test_a_text_that_cannot_be_encoded_can_be_afterwards() -> None:
    """Lone surrogates are replaced, so that every store and file accepts the text."""
    assert plain("a\ud800b").encode() == "a\ufffdb".encode()


@given(st.text())
def test_plain_text_has_nothing_that_moves_the_cursor_or_the_reading_direction(text: str) -> None:
    """Whatever comes in, only printable characters, tabs and newlines come out, and a second pass changes nothing."""
    result = plain(text)
    assert not set(result) & {
        chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066, 0x200F)
    }
    assert plain(result) == result


@pytest.mark.parametrize(
    "hostile", ["a" * 300_000, "://" * 100_000, "?key" * 80_000, "\x1b]" * 100_000, "eyJ." * 80_000]
)
def test_a_hostile_log_is_only_text(hostile: str) -> None:
    """Long repetitions come through: with a pattern of more than linear cost this test would not end."""
    assert isinstance(redact(plain(hostile)), str)
