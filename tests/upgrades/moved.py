"""Faults that come with a release and are the same in many kernels: names that moved, a package not required."""

from __future__ import annotations

from tests.upgrades.expectations import HOST, RELEASES, Finding

# Releases whose Pallas imports absl, which neither jax nor libtpu requires there.
ABSL_FORGOTTEN = ("0.5.3", "0.6.0", "0.6.1", "0.9.2")


def moved(*kinds: str, since: str = RELEASES[0], until: str = RELEASES[-1]) -> tuple[Finding, Finding]:
    """What lowering says from `since` to `until`, for a TPU and for this machine's device: wherever it is traced."""
    return (
        Finding(kinds, "lower", since=since, until=until),
        Finding(kinds, "lower", HOST, since=since, until=until),
    )


def forgets_absl() -> tuple[Finding, ...]:
    """What importing says where Pallas imports absl, which neither jax nor libtpu requires."""
    return tuple(Finding(("missing dependency",), "import", since=one, until=one) for one in ABSL_FORGOTTEN)
