"""Names that moved: missed wherever the kernel is traced, for a TPU and for this machine's device."""

from __future__ import annotations

from tests.upgrades.expectations import HOST, RELEASES, Finding


def moved(*kinds: str, since: str = RELEASES[0], until: str = RELEASES[-1]) -> tuple[Finding, Finding]:
    """What lowering says from `since` to `until`, for every target."""
    return (
        Finding(kinds, "lower", since=since, until=until),
        Finding(kinds, "lower", HOST, since=since, until=until),
    )
