"""Broken kernels of our own, and what is known of each."""

from __future__ import annotations

from tests.upgrades.expectations import Watched

BROKEN: tuple[Watched, ...] = ()
