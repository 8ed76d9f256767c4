"""From what each release said of its names to one small table of when each was there and what it is called now.

Present names come from the releases themselves: another name of the same object in the last release that had the old
one, or the same definition under another name in a later release. Apart from these: what a deprecation's message advises.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from packaging.version import Version

Answer = Mapping[str, Any]

_PREFIXES = {
    "pl.": "jax.experimental.pallas.",
    "pltpu.": "jax.experimental.pallas.tpu.",
    "jnp.": "jax.numpy.",
    "lax.": "jax.lax.",
    "tree_util.": "jax.tree_util.",
}
_ADVICE = re.compile(
    r"(?:\b[Uu]se|\bprefer|\baccess it through|\breplaced by|\binstead,? use)\s+(?:the\s+)?`*([A-Za-z_][\w.]*)(?![\w\[])"
)
_SAYS_MORE = re.compile(
    r"\b(?:use|using|instead|see|replace\w*|prefer|through|internal|unused|no replacement)\b", re.IGNORECASE
)
_MOST = 2  # present names that are kept for an old one, best first
_MESSAGE = 200  # characters
_PARAMETERS_OF = ("jax", "jax.experimental.pallas", "jax.experimental.pallas.tpu")  # told even where they never changed
_INNER = (  # whose callables no kernel calls
    "jax.core.",
    "jax.experimental.array_api.",
    "jax.experimental.pallas.mosaic_gpu.",
    "jax.experimental.sparse.",
    "jax.extend.",
    "jax.interpreters.",
    "jax.lib.",
)
_LAST_CHOICE = ("jax.experimental.pallas.ops.", "jax.lib.", "jax.interpreters.", "jax.experimental.sparse.")


def table(answers: Sequence[Answer]) -> dict[str, Any]:
    """The table as JSON; `watchdog/judges/names.py` reads it and says what each part means."""
    answers = sorted(answers, key=lambda answer: Version(answer["release"]))
    present = _present(answers)
    gone = [name for name, seen in present.items() if seen[-1] < len(answers) - 1]
    gone += [name for name in _last_messages(answers, "removed") if name not in present]
    now = {name: found for name in sorted(gone) if (found := _other_names(name, answers, present))}
    use = {name: found for name in sorted(gone) if (found := _advised(name, answers, present))}
    return {
        "releases": [answer["release"] for answer in answers],
        "unread": sorted({module for answer in answers for module in answer["unread"]}),
        "names": _by_module(present),
        "deprecated": _first_deprecated(answers),
        "parameters": _by_runs(_parameters(answers)),
        "now": now,
        "use": use,
        "said": _said(answers, present, {**now, **use}),
    }


def _present(answers: Sequence[Answer]) -> dict[str, list[int]]:
    """Each full name, modules' own too, and the numbers of the releases that have it."""
    seen: dict[str, list[int]] = defaultdict(list)
    for number, answer in enumerate(answers):
        named = {f"{module}.{name}" for module, names in answer["modules"].items() for name in names}
        for name in named | set(answer["modules"]):
            seen[name].append(number)
    return dict(seen)


def _by_module(present: Mapping[str, Sequence[int]]) -> dict[str, dict[str, str]]:
    """By module and by runs of releases ("3-7,9-9") the last parts of the names, in one string."""
    modules: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, seen in present.items():
        module, _, last = name.rpartition(".")
        modules[module][_runs(seen)].append(last)
    return _sorted(
        {module: {runs: " ".join(sorted(names)) for runs, names in held.items()} for module, held in modules.items()}
    )


def _runs(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" for first, last in runs)


def _first_deprecated(answers: Sequence[Answer]) -> dict[str, str]:
    """By the number of the first release that calls them deprecated, the full names."""
    first: dict[str, int] = {}
    for number, answer in enumerate(answers):
        for name in answer["deprecated"]:
            first.setdefault(name, number)
    by_number: dict[str, list[str]] = defaultdict(list)
    for name, number in first.items():
        by_number[str(number)].append(name)
    return {number: " ".join(sorted(names)) for number, names in sorted(by_number.items(), key=lambda one: int(one[0]))}


def _parameters(answers: Sequence[Answer]) -> dict[str, dict[str, list[int]]]:
    """Callables, each once however many names it has, and when they had which parameters: Pallas' own, and those that changed.

    A callable's key is `name in errors @ full public name`: Python names a function as it was defined.
    """
    seen: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    asked: dict[str, list[int]] = defaultdict(list)
    for number, answer in enumerate(answers):
        for path, defined in _one_name_each(answer):
            key = f"{defined}@{path}"
            asked[key].append(number)
            for parameter in answer["parameters"][path]:
                seen[key][parameter].append(number)
    return {
        key: dict(found)
        for key, found in seen.items()
        if key.partition("@")[2].rpartition(".")[0] in _PARAMETERS_OF
        or any(numbers != asked[key] for numbers in found.values())
    }


def _one_name_each(answer: Answer) -> Iterator[tuple[str, str]]:
    """The shortest public name of each definition that has parameters, and the name that errors call it by."""
    best: dict[str, str] = {}
    for path in sorted(answer["parameters"], key=lambda path: _rank(path, "")):
        if path in answer["definitions"]:
            best.setdefault(answer["definitions"][path], path)
    for definition, path in best.items():
        if not path.startswith(_INNER):
            yield path, definition.partition(":")[2]


def _by_runs(found: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, str]]:
    by_runs: dict[str, dict[str, list[str]]] = {}
    for key, parameters in found.items():
        by_runs[key] = defaultdict(list)
        for parameter, numbers in parameters.items():
            by_runs[key][_runs(numbers)].append(parameter)
    return _sorted({key: {runs: " ".join(names) for runs, names in held.items()} for key, held in by_runs.items()})


def _other_names(name: str, answers: Sequence[Answer], present: Mapping[str, Sequence[int]]) -> list[str]:
    """Other names of what a name that is gone stood for: of the same object, else of the same definition later on."""
    if name not in present:
        return []
    last = present[name][-1]
    found = (*_of_the_object(name, answers[last]), *_of_the_definition(name, answers[last], answers[last + 1 :]))
    named = (other for other in found if len(other.rpartition(".")[2]) > 1)  # not what a loop left in a module
    return list(dict.fromkeys(named))[:_MOST]


def _advised(name: str, answers: Sequence[Answer], present: Mapping[str, Sequence[int]]) -> list[str]:
    """The names that jax's own messages advise, the newest message first."""
    told = (answer[kind].get(name) for answer in reversed(answers) for kind in ("removed", "deprecated"))
    modules = {module for answer in answers for module in answer["modules"] if module not in answer["objects"]}
    found: list[str] = []
    for message in dict.fromkeys(message for message in told if message):
        for word in _ADVICE.findall(message):
            meant = (_in_module(spelled, name, modules, present) for spelled in _spellings(word.rstrip("."), name))
            found += list(filter(None, meant))[:1]
    return list(dict.fromkeys(found))[:_MOST]


def _spellings(word: str, name: str) -> Iterator[str]:
    """The full names that a word of a message may mean: as it stands, with a prefix spelled out, beside the old name."""
    yield word
    for short, full in _PREFIXES.items():
        if word.startswith(short):
            yield full + word.removeprefix(short)
    yield f"{name.rpartition('.')[0]}.{word}"
    yield f"jax.{word}"


def _in_module(spelled: str, name: str, modules: set[str], present: Mapping[str, Sequence[int]]) -> str | None:
    """What is advised, where it is a name that some release has; where a module is advised, the same name in it."""
    if spelled not in present or spelled == name:
        return None
    if spelled not in modules or name in modules:
        return spelled
    inside = f"{spelled}.{name.rpartition('.')[2]}"
    return inside if inside in present else None


def _of_the_object(name: str, answer: Answer) -> list[str]:
    """Other names of the same object in the last release that had the name."""
    number = answer["objects"].get(name)
    if number is None:
        return []
    others = [other for other, its in answer["objects"].items() if its == number and other != name]
    return sorted(others, key=lambda other: (other in answer["deprecated"], *_rank(other, name)))


def _of_the_definition(name: str, last: Answer, later: Sequence[Answer]) -> Iterator[str]:
    """Names that the same definition has in later releases."""
    definition = last["definitions"].get(name)
    if definition is None:
        return
    for answer in later:
        others = [other for other, its in answer["definitions"].items() if its == definition and other != name]
        yield from sorted(others, key=lambda other: (other in answer["deprecated"], *_rank(other, name)))


def _rank(other: str, name: str) -> tuple[bool, bool, int, str]:
    """Names in the old one's own module first, then those that people use: short, and not from the depths."""
    beside = other.rpartition(".")[0] == name.rpartition(".")[0]
    return not beside, other.startswith(_LAST_CHOICE), other.count("."), other


def _last_messages(answers: Sequence[Answer], kind: str) -> dict[str, str]:
    return {name: message for answer in answers for name, message in answer[kind].items()}


def _said(answers: Sequence[Answer], present: Mapping[str, Sequence[int]], now: Mapping[str, Any]) -> dict[str, str]:
    """What jax says of names that are gone and that no present name is known of, beyond that they are gone."""
    messages = {**_last_messages(answers, "deprecated"), **_last_messages(answers, "removed")}
    newest = len(answers) - 1
    return {
        name: " ".join(message.split())[:_MESSAGE]
        for name, message in sorted(messages.items())
        if _SAYS_MORE.search(message) and name not in now and (name not in present or present[name][-1] < newest)
    }


def _sorted(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {key: dict(sorted(tables[key].items())) for key in sorted(tables)}


def releases_of(answers: Iterable[Answer]) -> list[str]:
    """The releases that were asked, oldest first."""
    return sorted((answer["release"] for answer in answers), key=Version)
