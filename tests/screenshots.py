"""Takes the screenshots of the documentation from the report of a real run: `python -m tests.screenshots`.

The report is that of `make watch`, in `.watchdog/report` of this checkout.
"""

from __future__ import annotations

import sys

from tests.browser import browser
from tests.commands import ROOT

_IMAGES = ROOT / "docs" / "images"
_PAGES = (
    ("index.html", "overview", "light"),
    ("index.html", "overview-dark", "dark"),
    ("kernels/jax_flash_attention.html", "kernel", "light"),
)


def main() -> None:
    """Write the overview, light and dark, and a kernel's page."""
    site = ROOT / ".watchdog" / "report"
    if not (site / "index.html").is_file():
        sys.exit(f"{site} holds no report; run `make watch` first")
    with browser() as tab:
        for page, name, scheme in _PAGES:
            tab.look(1100, scheme=scheme)
            tab.visit((site / page).as_uri())
            tab.screenshot(_IMAGES / f"{name}.png", most=1000)


if __name__ == "__main__":
    main()
