"""What is installed in a folder, read from its metadata without starting its Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path

from packaging.utils import canonicalize_name, canonicalize_version

from watchdog.model import Package


def installed_packages(folder: Path) -> tuple[Package, ...]:
    """Every distribution in `folder`, by name; one whose metadata is broken appears with what can be read."""
    if not folder.is_dir():
        return ()
    found = [_package(one.metadata) for one in distributions(path=[str(folder)])]
    return tuple(sorted(found, key=lambda package: (package.name, package.version)))


def _package(metadata: PackageMetadata) -> Package:
    # Broken metadata has no name: that is a difference from every lock, so it must not be passed over.
    name = metadata["Name"] if "Name" in metadata else "a package without a name"  # noqa: SIM401 - the protocol has no get
    return Package(canonicalize_name(name), metadata["Version"] if "Version" in metadata else "?")  # noqa: SIM401 - same


def differences(expected: Mapping[str, str | None], installed: Sequence[Package], source: str) -> list[str]:
    """Sentences on every package that `installed` lacks, has beyond `expected`, or has in another version.

    `source` says whose word `expected` is. A version of None fits any.
    """
    versions = {package.name: package.version for package in installed}
    twice = [name for name, count in Counter(package.name for package in installed).items() if count > 1]
    return [
        *(f"{name} is missing" for name in sorted(expected.keys() - versions.keys())),
        *(f"{name} {versions[name]} is not in {source}" for name in sorted(versions.keys() - expected.keys())),
        *(f"{name} is installed twice" for name in sorted(twice)),
        *(
            f"{name} is {versions[name]}, but {version} in {source}"
            for name, version in sorted(expected.items())
            if version is not None and name in versions and not _equal(versions[name], version)
        ),
    ]


def _equal(one: str, other: str) -> bool:
    return canonicalize_version(one) == canonicalize_version(other)
