"""Takes the screenshots of the documentation from a run that never happened: `python -m tests.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser import browser
from tests.synthetic_reports import realistic
from watchdog.publish.html import write_site

_IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"


def main() -> None:
    """Write the overview, light and dark, and a kernel's page."""
    today, yesterday = realistic(), realistic("2026-01-30T02:00:00Z-11c2", broken=False)
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        site = Path(folder) / "site"
        write_site(site, [today.summary, yesterday.summary], today, earlier=[yesterday])
        for page, name, scheme in (
            ("index.html", "overview", "light"),
            ("index.html", "overview-dark", "dark"),
            ("kernels/jax_flash_attention.html", "kernel", "light"),
        ):
            tab.look(1100, scheme=scheme)
            tab.visit((site / page).as_uri())
            tab.screenshot(_IMAGES / f"{name}.png", most=1000)


if __name__ == "__main__":
    main()
