"""Mistakes between the keys of `watchdog.toml`, each of which may be right by itself.

They are names that occur twice, names that nothing has, and matrices without a cell. The document is looked at as
tomllib read it, so that they are told together with the mistakes of single keys; values of a wrong type are passed
over here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from watchdog.callspec import parse_argument
from watchdog.config_values import CUSTOM, NATIVE, suggest
from watchdog.mistakes import Mistake
from watchdog.toml_lines import Place

_SOURCES = ("requirements", "requirements_file", "lock")  # of pins


def inconsistencies(document: Mapping[str, Any]) -> Iterator[Mistake]:
    """Every mistake between keys of the document, as tomllib read it."""
    pins, kernels = document.get("pins", {}), _tables(document.get("kernel", []))
    yield from _empty_matrix(document)
    yield from _unknown_baseline(document)
    if isinstance(pins, dict):
        for name, table in pins.items():
            yield from _pins_mistakes(("pins", name), table)
    yield from _repeated_names(kernels, ("kernel",), "kernel")
    for index, kernel in kernels:
        yield from _kernel_mistakes(("kernel", index), kernel)


def _tables(value: Any) -> list[tuple[int, dict[str, Any]]]:
    """The tables of an array, each with its index; nothing where there is something else."""
    return (
        [(index, item) for index, item in enumerate(value) if isinstance(item, dict)] if isinstance(value, list) else []
    )


def _empty_matrix(document: Mapping[str, Any]) -> Iterator[Mistake]:
    if document.get("pins", {}) == {}:
        yield Mistake(("pins",), "an empty matrix: no pins; add a table such as [pins.current]")
    if document.get("kernel", []) == []:
        yield Mistake(("kernel",), "an empty matrix: no kernel; add a [[kernel]] table")
    options = document.get("watchdog", {})
    for key in ("targets", "checks", "scenarios"):
        chosen = options.get(key) if isinstance(options, dict) else None
        if chosen == []:
            yield Mistake(("watchdog", key), f"an empty matrix: no {key}; name some, or leave the key out")
        elif isinstance(chosen, list):
            yield from _repeated(chosen, ("watchdog", key))


def _repeated(values: list[Any], place: Place) -> Iterator[Mistake]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Mistake((*place, index), f"{value!r} stands here twice; remove one")


def _unknown_baseline(document: Mapping[str, Any]) -> Iterator[Mistake]:
    options, pins = document.get("watchdog"), document.get("pins")
    baseline = options.get("baseline") if isinstance(options, dict) else None
    if isinstance(baseline, str) and isinstance(pins, dict) and pins and baseline not in pins:
        yield Mistake(("watchdog", "baseline"), f"there are no pins {baseline!r}; {suggest(baseline, pins)}")


def _pins_mistakes(place: Place, table: Any) -> Iterator[Mistake]:
    if not isinstance(table, dict):
        return
    given = [key for key in _SOURCES if key in table]
    if len(given) != 1:
        found = f"{' and '.join(given)} are here" if given else "none of them is here"
        yield Mistake((*place, *given[1:]), f"pins have one of {', '.join(map(repr, _SOURCES))}; {found}")
    elif table.get("requirements") == []:
        yield Mistake((*place, "requirements"), "nothing to install; add a requirement such as 'jax[tpu]==0.10.2'")


def _repeated_names(tables: list[tuple[int, dict[str, Any]]], place: Place, what: str) -> Iterator[Mistake]:
    names = Counter[str]()
    for index, table in tables:
        name = table.get("name")
        if not isinstance(name, str):
            continue
        names[name] += 1
        if names[name] > 1:
            yield Mistake((*place, index, "name"), f"another {what} has the name {name!r}; give each its own")


def _kernel_mistakes(place: Place, kernel: dict[str, Any]) -> Iterator[Mistake]:
    cases = _tables(kernel.get("case", []))
    if kernel.get("case", []) == []:
        yield Mistake((*place, "case"), "an empty matrix: no case; add a [[kernel.case]] table below the kernel")
    yield from _repeated_names(cases, (*place, "case"), "case of this kernel")
    yield from _implementation_mistakes(place, kernel)
    for index, case in cases:
        yield from _case_mistakes((*place, "case", index), case, kernel)


def _implementation_mistakes(place: Place, kernel: dict[str, Any]) -> Iterator[Mistake]:
    also, layout = kernel.get("also", {}), kernel.get("layout")
    others = list(also) if isinstance(also, dict) else []
    for name in {CUSTOM, NATIVE}.intersection(others):
        yield Mistake((*place, "also", name), f"{name!r} is a key of the kernel itself; choose another name here")
    for name in layout if isinstance(layout, dict) else ():
        known = dict.fromkeys((CUSTOM, NATIVE, *others))
        if name not in known:
            yield Mistake((*place, "layout", name), f"no implementation has this name; {suggest(name, known)}")
    if isinstance(kernel.get("differentiate"), list):
        yield from _repeated(kernel["differentiate"], (*place, "differentiate"))
    if isinstance(kernel.get("scenarios"), list):
        yield from _repeated(kernel["scenarios"], (*place, "scenarios"))


def _case_mistakes(place: Place, case: dict[str, Any], kernel: dict[str, Any]) -> Iterator[Mistake]:
    args, differentiate = case.get("args", []), kernel.get("differentiate", [])
    if "inputs" in kernel and "args" in case:
        yield Mistake((*place, "args"), "the kernel's 'inputs' makes the arguments; remove one of the two")
    if "inputs" not in kernel and args == []:
        yield Mistake((*place, "args"), "no arguments; write args = [\"f32[8,128]\"], or give the kernel 'inputs'")
    if "inputs" in kernel and "length" in case:
        yield Mistake((*place, "length"), "the kernel's 'inputs' makes the arguments, of lengths of its own; remove it")
    else:
        yield from _strange_length(place, case.get("length"), args)
    if isinstance(args, list) and isinstance(differentiate, list) and "inputs" not in kernel:
        for index in differentiate:
            yield from _undifferentiable(place, args, index)


def _strange_length(place: Place, length: Any, args: Any) -> Iterator[Mistake]:
    """Whether `length` is a dimension of some argument. What is no number or no argument is told there."""
    if type(length) is not int or length < 1 or not isinstance(args, list) or not args:
        return
    try:
        sizes = sorted({size for text in args for size in parse_argument(str(text)).shape})
    except ValueError:
        return
    if length not in sizes:
        known = f"the dimensions are {', '.join(map(str, sizes))}" if sizes else "all are scalars"
        yield Mistake((*place, "length"), f"no argument has a dimension of {length}; {known}")


def _undifferentiable(place: Place, args: list[Any], index: Any) -> Iterator[Mistake]:
    """Whether `differentiate` names an argument that this case has and that has a gradient."""
    if not isinstance(index, int) or index < 0 or not args:
        return
    if index >= len(args):
        message = f"'differentiate' names argument {index}, counted from 0; this case has {len(args)}"
        yield Mistake((*place, "args"), message)
        return
    try:
        spec = parse_argument(str(args[index]))
    except ValueError:
        return  # told at the argument itself
    if not spec.is_float:
        message = f"'differentiate' names this argument, but {spec.dtype} has no gradient; leave {index} out"
        yield Mistake((*place, "args", index), message)
