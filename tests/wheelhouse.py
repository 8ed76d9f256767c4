"""Tiny packages made by hand, so that resolving and installing are tested with the real uv and without an index."""

from __future__ import annotations

import base64
import hashlib
import os
import textwrap
import zipfile
from pathlib import Path

from watchdog.uv import Uv, clean_environment

_BACKEND = """
import base64, hashlib, pathlib, zipfile

NAME, VERSION, REQUIRES = {name!r}, {version!r}, {requires!r}

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    files = {{
        f"{{NAME}}.py": pathlib.Path(f"{{NAME}}.py").read_text(),
        f"{{info}}/METADATA": "Metadata-Version: 2.1\\nName: " + NAME + "\\nVersion: " + VERSION + "\\n"
        + "".join(f"Requires-Dist: {{one}}\\n" for one in REQUIRES),
        f"{{info}}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    record = "".join(f"{{place}},,\\n" for place in files) + f"{{info}}/RECORD,,\\n"
    wheel = f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for place, text in {{**files, f"{{info}}/RECORD": record}}.items():
            archive.writestr(place, text)
    return wheel
"""


class Wheelhouse:
    """A folder of wheels that uv takes for its only index, and its own empty cache."""

    def __init__(self, folder: Path) -> None:
        self.wheels = folder / "wheels"
        self.wheels.mkdir(parents=True)
        self._cache = folder / "uv-cache"
        self._settings = folder / "uv.toml"
        self._settings.write_text(f'no-index = true\nfind-links = ["{self.wheels}"]\n', encoding="utf-8")

    def add(self, name: str, version: str, *, requires: tuple[str, ...] = (), python: str = ">=3.8") -> Path:
        """Put a wheel of one module there."""
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}\n"
        files = {
            f"{name}.py": f"VERSION = {version!r}\n",
            f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {one}\n" for one in requires),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{place},sha256={_digest(text)},{len(text)}\n" for place, text in files.items())
        wheel = self.wheels / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for place, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
                archive.writestr(zipfile.ZipInfo(place), text)
        return wheel

    def uv(self) -> Uv:
        """The real uv, which sees this folder and no index."""
        own = {
            "UV_CONFIG_FILE": str(self._settings),
            "UV_CACHE_DIR": str(self._cache),
            "UV_PYTHON_DOWNLOADS": "never",
        }
        inherited = {name: value for name, value in clean_environment(os.environ).items() if not name.startswith("UV_")}
        return Uv(Uv.found().binary, {**inherited, **own})


def make_project(
    folder: Path, name: str, version: str, *, requires: tuple[str, ...] = (), dynamic: bool = False
) -> Path:
    """A local project with a build backend of its own, so that building it needs no index."""
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text("ANSWER = 1\n", encoding="utf-8")
    backend = _BACKEND.format(name=name, version=version, requires=requires)
    (folder / "backend.py").write_text(backend, encoding="utf-8")
    told = 'dynamic = ["version"]' if dynamic else f'version = "{version}"'
    (folder / "pyproject.toml").write_text(
        textwrap.dedent(f"""
            [build-system]
            requires = []
            build-backend = "backend"
            backend-path = ["."]
            [project]
            name = "{name}"
            dependencies = {list(requires)}
            {told}
            """),
        encoding="utf-8",
    )
    return folder


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
