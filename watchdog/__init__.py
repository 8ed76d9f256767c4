"""Kernel Watchdog: tells when a custom accelerator kernel leaks, slows, errs or breaks after an upgrade, and why."""

__version__ = "0.1.0"
