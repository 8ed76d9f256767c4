"""Where each key of a TOML document stands, so that a mistake can be named with its line.

`tomllib` reads values and forgets places. This follows the same text a second time and only keeps lines: it expects
a document that `tomllib` has accepted, and does not look for mistakes itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

Place = tuple[str | int, ...]  # ("kernel", 0, "case", 1, "args", 2)

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\r\n]+")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> Mapping[Place, int]:
    """The line (counted from 1) of every table, key and array element of a valid TOML document."""
    return _Scanner(text).scan()


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of `place`, or of the nearest thing around it that the document has."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


class _Scanner:
    """A walk over the text that remembers on which line each place begins."""

    def __init__(self, text: str) -> None:
        self._text, self._position = text, 0
        self._counted, self._line = 0, 1
        self._lines: dict[Place, int] = {}
        self._array_lengths: dict[Place, int] = {}  # of arrays of tables

    def scan(self) -> Mapping[Place, int]:
        table: Place = ()
        self._skip(_SPACE)
        while self._position < len(self._text):
            if self._text[self._position] == "[":
                table = self._header()
            else:
                self._key_and_value(table)
            self._skip(_SPACE)
        return self._lines

    def _header(self) -> Place:
        """Step over `[table]` or `[[table]]`; return the place that the following keys belong to."""
        line = self._line_here()
        brackets = 2 if self._text.startswith("[[", self._position) else 1
        self._position += brackets
        *outer, last = self._key()
        self._position += brackets
        place: Place = ()
        for part in outer:
            place = self._newest((*place, part), line)
        place = (*place, last)
        if brackets == 1:
            return self._newest(place, line)
        self._array_lengths[place] = self._array_lengths.get(place, 0) + 1
        return self._newest(place, line)

    def _newest(self, place: Place, line: int) -> Place:
        """`place` itself, or its newest element if it is an array of tables."""
        self._lines.setdefault(place, line)
        if place in self._array_lengths:
            place = (*place, self._array_lengths[place] - 1)
            self._lines.setdefault(place, line)
        return place

    def _key_and_value(self, table: Place) -> None:
        line = self._line_here()
        place = table
        for part in self._key():
            place = (*place, part)
            self._lines.setdefault(place, line)
        self._position += 1  # the equals sign
        self._skip(_BLANK)
        self._value(place)

    def _key(self) -> list[str]:
        """Step over a dotted key and the blanks around it."""
        parts = [self._key_part()]
        while self._text.startswith(".", self._position):
            self._position += 1
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        self._skip(_BLANK)
        start = self._position
        quoted = self._text[start] in "\"'"
        self._skip_string() if quoted else self._skip(_BARE_KEY)
        part = self._text[start : self._position]
        self._skip(_BLANK)
        return str(tomllib.loads(f"key = {part}")["key"]) if quoted else part

    def _value(self, place: Place) -> None:
        match self._text[self._position]:
            case "[":
                self._array(place)
            case "{":
                self._inline_table(place)
            case '"' | "'":
                self._skip_string()
            case _:
                self._skip(_BARE_VALUE)

    def _array(self, place: Place) -> None:
        self._step_and_skip_space()
        index = 0
        while self._text[self._position] != "]":
            element = (*place, index)
            self._lines[element] = self._line_here()
            self._value(element)
            self._skip_comma()
            index += 1
        self._position += 1

    def _inline_table(self, place: Place) -> None:
        self._step_and_skip_space()
        while self._text[self._position] != "}":
            self._key_and_value(place)
            self._skip_comma()
        self._position += 1

    def _skip_comma(self) -> None:
        self._skip(_SPACE)
        if self._text[self._position] == ",":
            self._step_and_skip_space()

    def _step_and_skip_space(self) -> None:
        self._position += 1
        self._skip(_SPACE)

    def _skip_string(self) -> None:
        for form in _STRINGS:
            if match := form.match(self._text, self._position):
                self._position = match.end()
                return
        msg = f"not a TOML string at offset {self._position}"  # tomllib would have refused the document
        raise ValueError(msg)

    def _skip(self, form: re.Pattern[str]) -> None:
        if match := form.match(self._text, self._position):
            self._position = match.end()

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line
