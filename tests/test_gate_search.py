"""The two searches, fed with answers that are made up: hidden causes, unresolvable mixtures, and flaky releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.gate.report import Probed
from watchdog.gate.search import Edge, first_bad, smallest_cause

Question = TypeVar("Question")

SIZES = st.integers(1, 24)


@dataclass
class Asked(Generic[Question]):
    """A function that answers, and what it was asked."""

    answer: Callable[[Question], Probed]
    questions: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> Probed:
        self.questions.append(question)
        return self.answer(question)


def brings(cause: Iterable[int]) -> Callable[[frozenset[int]], Probed]:
    """A regression that is there as soon as all of the cause is."""
    wanted = frozenset(cause)
    return lambda chosen: Probed.BAD if wanted <= chosen else Probed.GOOD


@st.composite
def bumps(draw: st.DrawFn) -> tuple[int, frozenset[int]]:
    """A number of packages, and which of them bring the regression together."""
    size = draw(SIZES)
    cause = draw(st.frozensets(st.integers(0, size - 1), min_size=1, max_size=size))
    return size, cause


class TestSmallestCause:
    @given(bumps())
    def test_a_cause_of_any_size_is_found_exactly(self, bump: tuple[int, frozenset[int]]) -> None:
        """No question is asked twice, none about nothing or everything, and no more than ddmin's bound."""
        size, cause = bump
        ask = Asked(brings(cause))
        found = smallest_cause(range(size), ask)
        assert (found.units, found.complete) == (cause, True)
        assert len(ask.questions) == len(set(ask.questions)) <= size**2 + 4 * size
        assert not {frozenset(), frozenset(range(size))} & set(ask.questions)

    @given(st.integers(2, 200), st.data())
    def test_one_package_among_many_takes_few_questions(self, size: int, data: st.DataObject) -> None:
        """It is halved: some three questions for each doubling."""
        ask = Asked(brings({data.draw(st.integers(0, size - 1))}))
        smallest_cause(range(size), ask)
        assert len(ask.questions) <= 3 + 2 * math.ceil(math.log2(size))

    def test_the_first_suspect_is_tried_first(self) -> None:
        """A bump of thirty packages of which the one under suspicion did it costs one question."""
        ask = Asked(brings({0}))
        assert smallest_cause(range(30), ask).units == {0}
        assert len(ask.questions) == 1

    def test_one_package_is_not_asked_about(self) -> None:
        """It is the whole change, which is known to be bad."""
        ask = Asked(brings({0}))
        assert smallest_cause([0], ask).units == {0}
        assert not ask.questions

    @given(bumps(), st.data())
    def test_what_cannot_be_installed_is_neither_good_nor_bad(
        self, bump: tuple[int, frozenset[int]], data: st.DataObject
    ) -> None:
        """With any mixtures unresolvable the set found is bad, holds the cause, and is smallest where that is claimed."""
        size, cause = bump
        salt = data.draw(st.integers())

        def answer(chosen: frozenset[int]) -> Probed:
            is_hole = hash((salt, *sorted(chosen))) % 3 == 0
            return Probed.UNRESOLVABLE if is_hole else brings(cause)(chosen)

        ask = Asked(answer)
        found = smallest_cause(range(size), ask)
        assert cause <= found.units
        assert len(ask.questions) == len(set(ask.questions)) <= size**2 + 5 * size
        if found.complete:
            assert found.units == cause
        assert found.units == frozenset(range(size)) or ask.answer(found.units) is Probed.BAD

    def test_a_pair_that_cannot_be_parted_is_named_whole_and_said_to_be_unsettled(self) -> None:
        """Of two that install only together nothing more can be known."""
        pair = frozenset({2, 3})

        def answer(chosen: frozenset[int]) -> Probed:
            return brings({2})(chosen) if len(pair & chosen) != 1 else Probed.UNRESOLVABLE

        found = smallest_cause(range(6), answer)
        assert (found.units, found.unsettled, found.complete) == (pair, pair, False)

    def test_one_of_two_causes_is_found(self) -> None:
        """Either alone brings it: the answer is one of them, not both."""

        def answer(chosen: frozenset[int]) -> Probed:
            return Probed.BAD if chosen & {4, 9} else Probed.GOOD

        assert smallest_cause(range(12), answer).units in ({4}, {9})

    @pytest.mark.parametrize("questions", range(12))
    def test_when_the_time_is_up_nothing_more_is_asked(self, questions: int) -> None:
        """What is left then still holds the cause, and is not called complete unless it is."""
        ask = Asked(brings({5, 11}))
        found = smallest_cause(range(12), ask, lambda: len(ask.questions) >= questions)
        assert len(ask.questions) <= questions
        assert found.units >= {5, 11}
        assert found.out_of_time
        assert not found.complete


def breaking_at(place: int) -> Callable[[int], Probed]:
    """Releases of which this and all later ones are bad."""
    return lambda release: Probed.BAD if release >= place else Probed.GOOD


def search(size: int, answer: Callable[[int], Probed], limit: float = math.inf) -> tuple[Edge[int], list[int]]:
    """The edge, and what was asked, the confirmation left out."""
    ask = Asked(answer)
    edge = first_bad(range(size), ask, answer, lambda: len(ask.questions) >= limit)
    return edge, ask.questions


class TestFirstBad:
    @given(st.integers(2, 300), st.data())
    def test_the_edge_is_found_and_confirmed(self, size: int, data: st.DataObject) -> None:
        """In a binary logarithm of questions, and both ends first."""
        place = data.draw(st.integers(1, size - 1))
        edge, questions = search(size, breaking_at(place))
        assert (edge.last_good, edge.first_bad, edge.is_certain) == (place - 1, place, True)
        assert questions[:2] == [0, size - 1]
        assert len(questions) <= 2 + math.ceil(math.log2(size))

    @given(st.integers(3, 60), st.data())
    def test_what_cannot_be_judged_is_walked_around(self, size: int, data: st.DataObject) -> None:
        """The edge lies between judged releases next to each other, or what lies between is all that was in vain."""
        place = data.draw(st.integers(1, size - 1))
        holes = data.draw(st.frozensets(st.integers(1, size - 2)))
        kind = data.draw(st.sampled_from([Probed.UNKNOWN, Probed.UNRESOLVABLE]))
        edge, questions = search(size, lambda release: kind if release in holes else breaking_at(place)(release))
        assert len(questions) == len(set(questions)) <= 2 + math.ceil(math.log2(size)) + 2 * len(holes)
        assert edge.last_good is not None
        assert edge.first_bad is not None
        assert edge.last_good < place <= edge.first_bad
        assert edge.between == tuple(range(edge.last_good + 1, edge.first_bad))
        assert set(edge.between) <= holes
        assert edge.is_certain is (not edge.between)
        assert set(edge.unjudged) <= holes

    def test_a_hole_in_the_middle_is_left_behind(self) -> None:
        """Not each of its releases is asked when the edge lies elsewhere."""
        _, questions = search(100, lambda at: Probed.UNRESOLVABLE if 30 < at < 70 else breaking_at(10)(at))
        assert sum(30 < at < 70 for at in questions) <= 3

    @pytest.mark.parametrize(
        ("answer", "good", "bad"),
        [
            (lambda _: Probed.GOOD, 0, None),
            (lambda _: Probed.BAD, None, 8),
            (lambda _: Probed.UNRESOLVABLE, None, None),
            (lambda at: Probed.GOOD if at else Probed.BAD, None, None),
        ],
    )
    def test_without_a_good_and_a_bad_end_there_is_no_search(
        self, answer: Callable[[int], Probed], good: int | None, bad: int | None
    ) -> None:
        """Two questions tell so."""
        edge, questions = search(9, answer)
        assert (edge.last_good, edge.first_bad, edge.is_found, questions) == (good, bad, False, [0, 8])

    @pytest.mark.parametrize("flaky", [4, 5])
    def test_an_edge_that_answers_otherwise_when_asked_again_is_not_certain(self, flaky: int) -> None:
        """The release that contradicted itself is named."""

        def answer(at: int) -> Probed:
            return Probed.BAD if (at >= 5) is not (at == flaky) else Probed.GOOD

        again = Asked(answer)
        edge = first_bad(range(9), breaking_at(5), again)
        assert (edge.last_good, edge.first_bad) == (4, 5)
        assert (edge.contradictions, edge.confirmed, edge.is_certain) == ((flaky,), False, False)
        assert again.questions == [4, 5]

    @pytest.mark.parametrize("limit", range(1, 6))
    def test_when_the_time_is_up_the_range_is_told(self, limit: int) -> None:
        """It holds the edge, and is not certain."""
        edge, questions = search(64, breaking_at(40), limit)
        assert len(questions) <= limit
        assert edge.out_of_time
        assert not edge.is_certain
        if edge.is_found:
            assert edge.between == tuple(range((edge.last_good or 0) + 1, edge.first_bad or 0))
            assert 40 in (*edge.between, edge.first_bad)
