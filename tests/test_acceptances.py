"""What was declared intended is kept beside the configuration, and holds until its day, or until the figure moves."""

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog import acceptances
from watchdog.acceptances import Acceptance
from watchdog.errors import ConfigError, UsageError
from watchdog.gate import accepting
from watchdog.model import Cell, Check, Figure, Status, Verdict

TODAY = datetime.date(2026, 12, 4)
CELL = Cell("flash", "custom", "small", "head", "tpu:v5e", Check.SCHEDULE)
SLOWER = Verdict(CELL, Status.REGRESSED, "more bundles", kind="more bundles", figure=Figure(1.4, 1.3, 1.5, "times"))
INTENDED = Acceptance(SLOWER.id, "a safer softmax", "Ann", TODAY, None, "more bundles", SLOWER.figure)

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
numbers = st.floats(allow_nan=False)


class TestTheFile:
    def test_there_is_none_to_begin_with(self, tmp_path: Path) -> None:
        """Nothing was accepted where there is no file."""
        assert acceptances.load(tmp_path / "watchdog.accepted.toml") == ()

    @given(
        one=st.builds(
            Acceptance,
            words,
            words,
            words,
            st.dates(),
            st.none() | st.dates(),
            st.none() | words,
            st.none() | st.builds(Figure, numbers, numbers, numbers, words),
        )
    )
    def test_what_is_written_is_read(self, tmp_path_factory: pytest.TempPathFactory, one: Acceptance) -> None:
        """Whatever the words and figures are."""
        path = tmp_path_factory.mktemp("accepted") / "watchdog.accepted.toml"
        acceptances.add(path, one)
        acceptances.add(path, replace(INTENDED, verdict="another"))

        assert acceptances.load(path)[0] == one
        assert len(acceptances.load(path)) == 2

    def test_a_verdict_is_accepted_once(self, tmp_path: Path) -> None:
        """A later acceptance takes the place of an earlier one, and nothing else is left in the folder."""
        path = tmp_path / "watchdog.accepted.toml"
        for reason in ("at first", "in the end"):
            acceptances.add(path, replace(INTENDED, reason=reason))

        assert [one.reason for one in acceptances.load(path)] == ["in the end"]
        assert [one.name for one in tmp_path.iterdir()] == ["watchdog.accepted.toml"]

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[[accepted]\n", "not valid TOML"),
            ('[[accepted]]\nverdict = "a"\n', r"accepted\.0\.reason: field required"),
            ('[[accepted]]\nverdcit = "a"\n', "accepted"),
            ('[[accepted]]\nverdict="a"\nreason="r"\nby="b"\non="soon"\n', r"accepted\.0\.on"),
        ],
    )
    def test_a_file_that_cannot_be_understood_is_named(self, tmp_path: Path, text: str, told: str) -> None:
        """It may have been edited by hand; the sentence names the file and the place."""
        path = tmp_path / "watchdog.accepted.toml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=rf"watchdog\.accepted\.toml: .*{told}"):
            acceptances.load(path)

    def test_a_folder_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        """And nothing is half written."""
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(UsageError, match=r"cannot be (written|read)"):
            acceptances.add(tmp_path / "file" / "watchdog.accepted.toml", INTENDED)


class TestHolding:
    def test_it_holds_while_the_figure_stays(self) -> None:
        """Another measurement of the same thing touches what was accepted."""
        again = replace(SLOWER, figure=Figure(1.45, 1.35, 1.55, "times"))
        found = acceptances.about([INTENDED], again, TODAY)
        assert found is not None
        assert found.expired is None

    @pytest.mark.parametrize(
        ("verdict", "why"),
        [
            (replace(SLOWER, figure=Figure(1.8, 1.7, 1.9, "times")), "the figure moved again: 1.4 times was accepted"),
            (replace(SLOWER, figure=Figure.exact(1.2, "times")), "the figure moved again"),
            (replace(SLOWER, figure=Figure(1.4, 1.3, 1.5, "B")), "the figure moved again"),
            (replace(SLOWER, figure=None), "another figure"),
            (replace(SLOWER, kind="more spills"), "what was accepted was more bundles, and this is more spills"),
        ],
    )
    def test_it_expires_when_the_finding_is_another(self, verdict: Verdict, why: str) -> None:
        """A figure beyond what was accepted, another kind, or none where there was one."""
        found = acceptances.about([INTENDED], verdict, TODAY)
        assert found is not None
        assert found.expired is not None
        assert why in found.expired

    def test_it_holds_through_its_last_day(self) -> None:
        """And not on the next."""
        until = replace(INTENDED, until=TODAY)
        held, past = (acceptances.about([until], SLOWER, TODAY + datetime.timedelta(days=days)) for days in (0, 1))
        assert held is not None
        assert held.expired is None
        assert past is not None
        assert past.expired == "it was accepted until 2026-12-04"

    def test_a_finding_without_a_figure_is_known_by_its_kind(self) -> None:
        """An import error that was accepted stays so."""
        broken = Verdict(CELL, Status.REGRESSED, "no module absl", kind="missing dependency")
        found = acceptances.about([replace(INTENDED, kind="missing dependency", figure=None)], broken, TODAY)
        assert found is not None
        assert found.expired is None

    def test_nothing_is_said_of_another_verdict(self) -> None:
        """Nor of one that passes."""
        assert acceptances.about([replace(INTENDED, verdict="other")], SLOWER, TODAY) is None
        assert acceptances.about([INTENDED], replace(SLOWER, status=Status.PASS), TODAY) is None


class TestAccepting:
    NAMED = accepting.Named(SLOWER.id, "regressed", "more bundles", SLOWER.figure)

    def test_it_takes_the_figure_with_it(self) -> None:
        """Words are cleaned of line breaks."""
        made = accepting.acceptance(self.NAMED, "a safer\n softmax", "Ann", TODAY, None)
        assert made == INTENDED

    @pytest.mark.parametrize(
        ("named", "reason", "until", "told"),
        [
            (NAMED, " ", None, "--reason: say why"),
            (NAMED, "r", datetime.date(2026, 12, 3), "--until 2026-12-03: that day is past"),
            (accepting.Named("a/b", "pass", None, None), "r", None, "a/b is pass, and only what regressed"),
        ],
    )
    def test_what_cannot_be_accepted_is_told(
        self, named: accepting.Named, reason: str, until: datetime.date | None, told: str
    ) -> None:
        """One sentence each."""
        with pytest.raises(UsageError, match=told):
            accepting.acceptance(named, reason, "Ann", TODAY, until)

    @pytest.mark.parametrize("text", ["", "[]", '{"verdicts": [{}]}', '{"judged": 1}', "3"])
    def test_a_document_of_another_kind_is_refused(self, tmp_path: Path, text: str) -> None:
        """It names the file."""
        (tmp_path / "gate.json").write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"--from .*gate\.json: (this is not|there is no)"):
            accepting.in_document(tmp_path / "gate.json", "a")
