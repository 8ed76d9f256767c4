"""Versions that do not fit together, said in one sentence: which package cannot read what which other one writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from watchdog.judges.fault_classes import fault_of
from watchdog.judges.fault_texts import essence
from watchdog.judges.wording import one_line
from watchdog.model import Environment, Observation

_MOSAIC = re.compile(r"Unsupported (?:Mosaic )?version: expected <= ?(\d+) but got (\d+)")
_STABLEHLO = re.compile(r"StableHLO_v([\d.]+\d).*?using StableHLO v([\d.]+\d)", re.DOTALL)
_FIELD = re.compile(r"no such\s+field:\s+'(\w+)'")
_NEWER_JAXLIB = re.compile(r"jaxlib version (\S+) is newer than and incompatible with jax version (\S+?)\.?(?:\s|$)")
_OLDER_JAXLIB = re.compile(r"jaxlib is version (\S+), but this version of jax requires version (>=? ?[\d.]+\d)")


def pins_sentence(observation: Observation, environment: Environment | None) -> str:
    """Which of jax, jaxlib and libtpu does not fit, from the error's numbers and from what the toolchain's own test found."""
    toolchain = observation.data.get("toolchain")
    known = _versions(toolchain if isinstance(toolchain, Mapping) else {}, environment)
    fault = fault_of(observation)
    text = "\n".join((fault.message, observation.log_tail, str(known.get("error") or "")))
    return (
        _out_of_step(text, known)
        or _cannot_read(text, known)
        or f"its versions do not fit together: {one_line(_first_line(known) or f'{fault.kind}: {essence(fault)}', 200)}{_wanted(known)}"
    )


def _versions(toolchain: Mapping[str, Any], environment: Environment | None) -> dict[str, Any]:
    installed = {package.name: package.version for package in environment.packages} if environment else {}
    here: dict[str, Any] = {name: installed[name] for name in ("jax", "jaxlib", "libtpu") if name in installed}
    return {**here, **{key: value for key, value in toolchain.items() if value is not None}}


def _out_of_step(text: str, known: Mapping[str, Any]) -> str | None:
    """jax and jaxlib, which must be released for each other."""
    if newer := _NEWER_JAXLIB.search(text):
        return f"jaxlib {newer[1]} is too new for jax {newer[2]}; install jaxlib {newer[2]} or a newer jax"
    if older := _OLDER_JAXLIB.search(text):
        return f"jaxlib {older[1]} is too old for {_named('jax', known)}, which requires jaxlib {older[2].replace(' ', '')}"
    return None


def _cannot_read(text: str, known: Mapping[str, Any]) -> str | None:
    """libtpu, which reads what jax writes."""
    if "at most a month old" in text:  # what jax's own check says, however much older than its libtpu ours is
        return f"{_named('jax', known)} refuses {_named('libtpu', known)} as too old{_wanted(known)}"
    numbers = _numbers(text)
    if numbers is None and "Failed to deserialize the Mosaic module" not in text:
        return None
    detail = f" ({numbers})" if numbers else ""
    return f"{_named('libtpu', known)} cannot read what {_named('jax', known)} writes{detail}{_wanted(known)}"


def _numbers(text: str) -> str | None:
    if mosaic := _MOSAIC.search(text):
        return f"Mosaic version {mosaic[2]}, it knows up to {mosaic[1]}"
    if stablehlo := _STABLEHLO.search(text):
        return f"StableHLO {stablehlo[1]}, it knows up to {stablehlo[2]}"
    if field := _FIELD.search(text):
        return f"the field {field[1]} is new to it"
    return None


def _wanted(known: Mapping[str, Any]) -> str:
    return f"; {_named('jax', known)} wants libtpu {one_line(str(known['wants']))}" if known.get("wants") else ""


def _first_line(known: Mapping[str, Any]) -> str | None:
    """What the trivial kernel failed with."""
    lines = str(known.get("error") or "").strip().splitlines()
    return f"a trivial kernel fails as well: {lines[0]}" if lines else None


def _named(package: str, known: Mapping[str, Any]) -> str:
    return f"{package} {one_line(str(known[package]))}" if known.get(package) else f"this {package}"
