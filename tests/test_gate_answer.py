"""What the verdicts of both sides mean for a change, and what the gate ends with."""

import datetime
from dataclasses import replace

import pytest

from watchdog.acceptances import Acceptance
from watchdog.gate.answer import EXIT_CODES, Strictness, answer, headline, judged
from watchdog.gate.report import Answer, Judged, Standing
from watchdog.model import Cell, Check, Figure, Observation, Outcome, Status, Verdict

TODAY = datetime.date(2026, 12, 4)
HEAD = Cell("flash", "custom", "small", "head", "host", Check.NUMERICS)
BASE = replace(HEAD, pins="base")
INSTALLED = Verdict(Cell("", "", "", "head", "", Check.INSTALL), Status.PASS, "installed")


def verdict(cell: Cell, status: Status, kind: str | None = None, figure: Figure | None = None) -> Verdict:
    """A verdict of a kind."""
    return Verdict(cell, status, "said", kind=kind, figure=figure)


def told(*verdicts: Verdict, accepted: tuple[Acceptance, ...] = ()) -> tuple[Judged, ...]:
    """The verdicts' standings."""
    seen = {one.cell: Observation(one.cell, Outcome.OBSERVED, log_tail="the log") for one in verdicts}
    return judged(verdicts, seen, accepted, base="base", head="head", today=TODAY)


def said(*verdicts: Verdict, strictness: Strictness = Strictness.THE_CHANGE_ALONE) -> Answer:
    """What the gate says of them."""
    return answer(told(*verdicts), strictness)


class TestStandings:
    def test_what_only_the_head_shows_came_with_the_change(self) -> None:
        """Its log goes with it."""
        (one,) = told(verdict(HEAD, Status.REGRESSED), verdict(BASE, Status.PASS))
        assert (one.standing, one.log_tail) == (Standing.BUMP, "the log")

    def test_what_both_show_is_still_broken(self) -> None:
        """Even where the error's class is another one: it is told once."""
        (one,) = told(verdict(HEAD, Status.REGRESSED, "crash"), verdict(BASE, Status.REGRESSED, "missing name"))
        assert one.standing is Standing.STILL
        assert one.before is not None

    def test_a_leak_that_grew_is_a_new_finding(self) -> None:
        """Beyond both figures' doubt; one that stayed is still there."""
        leak = verdict(BASE, Status.REGRESSED, "leak", Figure(64, 60, 68, "B/call"))
        for figure, standing in (
            (Figure(640, 630, 650, "B/call"), Standing.BUMP),
            (Figure(66, 60, 72, "B/call"), Standing.STILL),
            (Figure(640, 10, 1270, "B/call"), Standing.STILL),
            (Figure(640, 630, 650, "objects/call"), Standing.STILL),
        ):
            (one,) = told(verdict(HEAD, Status.REGRESSED, "leak", figure), leak)
            assert one.standing is standing

    def test_what_only_the_base_shows_is_told_apart(self) -> None:
        """The head repaired it, or could not be judged."""
        repaired, broken = told(verdict(HEAD, Status.IMPROVED, "repaired"), verdict(BASE, Status.REGRESSED))
        assert (repaired.standing, broken.standing) == (Standing.FINE, Standing.BASE)

    def test_signals_of_one_cell_are_compared_by_name(self) -> None:
        """More spills are not excused by more bundles; a fault of the whole base cell excuses both."""
        spills = replace(verdict(HEAD, Status.REGRESSED), signal="spills")
        bundles = replace(verdict(BASE, Status.REGRESSED), signal="bundles")
        assert [one.standing for one in told(spills, bundles)] == [Standing.BUMP, Standing.BASE]
        assert [one.standing for one in told(spills, verdict(BASE, Status.REGRESSED))] == [Standing.STILL]

    def test_an_accepted_finding_is_so(self) -> None:
        """Until it expires; then it is the change's again, with the acceptance beside it."""
        accepted = Acceptance(verdict(HEAD, Status.PASS).id, "intended", "Ann", TODAY, None, "wrong", None)
        (one,) = told(verdict(HEAD, Status.REGRESSED, "wrong"), accepted=(accepted,))
        assert one.standing is Standing.ACCEPTED
        (one,) = told(verdict(HEAD, Status.REGRESSED, "crash"), accepted=(accepted,))
        assert one.standing is Standing.BUMP
        assert one.acceptance is not None
        assert one.acceptance.expired is not None

    def test_what_was_undecided_before_is_no_question_of_the_change(self) -> None:
        """What is undecided only now, is."""
        (one,) = told(verdict(HEAD, Status.INCONCLUSIVE), verdict(BASE, Status.INCONCLUSIVE))
        assert one.standing is Standing.FINE
        (one,) = told(verdict(HEAD, Status.INCONCLUSIVE), verdict(BASE, Status.PASS))
        assert one.standing is Standing.OPEN


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("verdicts", "expected"),
        [
            ((verdict(HEAD, Status.PASS), verdict(BASE, Status.PASS)), Answer.PASSED),
            ((verdict(HEAD, Status.IMPROVED), verdict(BASE, Status.REGRESSED)), Answer.PASSED),
            ((verdict(HEAD, Status.REGRESSED), verdict(BASE, Status.PASS)), Answer.FAILED),
            ((verdict(HEAD, Status.REGRESSED), verdict(BASE, Status.REGRESSED)), Answer.PASSED),
            ((verdict(HEAD, Status.INCONCLUSIVE), verdict(BASE, Status.PASS)), Answer.UNDECIDED),
            ((verdict(HEAD, Status.SKIPPED), verdict(BASE, Status.PASS)), Answer.UNDECIDED),
            ((verdict(HEAD, Status.SKIPPED), verdict(BASE, Status.SKIPPED), INSTALLED), Answer.UNDECIDED),
            ((), Answer.UNDECIDED),
        ],
    )
    def test_it_follows_from_the_standings(self, verdicts: tuple[Verdict, ...], expected: Answer) -> None:
        """Nothing measured is never success: an environment that was installed is no answer about a kernel."""
        assert said(*verdicts) is expected

    def test_strictness_fails_on_what_was_broken_before(self) -> None:
        """And its headline says so."""
        both = verdict(HEAD, Status.REGRESSED), verdict(BASE, Status.REGRESSED)
        assert said(*both, strictness=Strictness.STRICT) is Answer.FAILED
        assert "still there" in headline(told(*both), Answer.FAILED, base="a.lock", head="b.lock")

    def test_each_answer_has_its_exit_code(self) -> None:
        """As the program's exit codes mean everywhere."""
        assert [EXIT_CODES[one] for one in (Answer.PASSED, Answer.FAILED, Answer.UNDECIDED)] == [0, 1, 3]

    @pytest.mark.parametrize(
        ("verdicts", "words"),
        [
            ((verdict(HEAD, Status.REGRESSED, "wrong numbers"),), "causes 1 regression (wrong numbers) in flash"),
            ((verdict(HEAD, Status.PASS),), "breaks nothing: 1 question answered"),
            ((verdict(HEAD, Status.INCONCLUSIVE),), "1 question could not be answered"),
            ((verdict(HEAD, Status.SKIPPED), verdict(BASE, Status.REGRESSED)), "a.lock is itself broken"),
            ((verdict(HEAD, Status.SKIPPED),), "nothing could be measured under b.lock"),
        ],
    )
    def test_the_headline_says_why(self, verdicts: tuple[Verdict, ...], words: str) -> None:
        """In one sentence."""
        assert words in headline(told(*verdicts), said(*verdicts), base="a.lock", head="b.lock")
