"""What a gate is given: pins, files and files at git refs; what differs between them, and whether any of it matters."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.wheelhouse import Wheelhouse
from watchdog.config import Config, Pins, load
from watchdog.errors import UsageError
from watchdog.gate import difference, out_of_step, refs, relevance, sides
from watchdog.gate.report import Difference
from watchdog.gate.sides import GivenSide
from watchdog.model import PackageChange
from watchdog.pins import Lock, PinsRequest, resolve
from watchdog.uv import Uv

KERNEL = "import jax\nimport math\nfrom helpers import x\nfrom . import y\nimport numpy.linalg as la, tree\n"


@dataclass(frozen=True)
class Bench:
    """A user's folder, and an index of wheels."""

    folder: Path
    house: Wheelhouse
    uv: Uv

    def write(self, place: str, text: str) -> Path:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def config(self) -> Config:
        return load(self.folder / "watchdog.toml")

    def lock(self, *requirements: str) -> Lock:
        found = resolve(PinsRequest("pins", requirements, None, None, self.folder), self.uv)
        assert isinstance(found, Lock), found
        return found

    def given(self, base: str, head: str) -> tuple[Pins, Pins]:
        first, second = sides.read_sides(self.config, base, head, python=None)
        return first.pins, second.pins

    def refused(self, base: str, head: str) -> str:
        with pytest.raises(UsageError) as raised:
            self.given(base, head)
        return str(raised.value)

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--message", "state")

    def differs(self, base: Lock, head: Lock, pins: tuple[Pins, Pins] = (Pins(), Pins())) -> Difference:
        given = [GivenSide(name, name, one) for name, one in zip(("base", "head"), pins, strict=True)]
        return difference.difference(given[0], given[1], [base], [head], (), warnings=())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    house = Wheelhouse(tmp_path / "house")
    for version in ("1.0", "2.0"):
        house.add("jaxlib", version)
        house.add("libtpu", version)
        house.add("jax", version, requires=(f"jaxlib=={version}", "numpy", f'libtpu=={version}.*; extra == "tpu"'))
        house.add("numpy", version)
        house.add("leaf", version)
        house.add("tree", version, requires=("leaf",))
        house.add("other", version)
    made = Bench(tmp_path / "user", house, house.uv())
    made.write("mine/mine.py", KERNEL)
    made.write("mine/helpers.py", "x = 1\n")
    made.write(
        "watchdog.toml",
        """
        [pins.current]
        requirements = ["jax==1.0"]
        [pins.next]
        requirements = ["jax==2.0", "./local"]
        [[kernel]]
        name = "k"
        path = "mine"
        custom = "mine:custom"
        native = "mine:native"
        [[kernel.case]]
        name = "c"
        args = ["f32[8]"]
        """,
    )
    made.write("local/pyproject.toml", "[project]\nname='local'\nversion='1'\n")
    return made


class TestSides:
    def test_pins_keep_their_name_and_their_paths_hold_everywhere(self, bench: Bench) -> None:
        first, second = sides.read_sides(bench.config, "current", "next", python=None)
        assert (first.name, second.name) == ("current", "next")
        assert second.pins.requirements == ("jax==2.0", str(bench.folder / "local"))

    def test_each_kind_of_file_is_known(self, bench: Bench) -> None:
        """Locks are honoured, requirements that leave versions open are resolved; both with the Python that was named."""
        bench.write("uv.lock", "version = 1\n")
        bench.write("poetry.lock", "")
        bench.write("hashed.txt", "jax==1.0 --hash=sha256:aa\n")
        bench.write("requirements.txt", "jax>=1\n")
        base, head = sides.read_sides(bench.config, "uv.lock", "requirements.txt", python="3.12")
        assert (base.name, head.name) == ("base", "head")
        assert base.pins == Pins(lock=str(bench.folder / "uv.lock"), python="3.12")
        assert head.pins == Pins(requirements_file=str(bench.folder / "requirements.txt"), python="3.12")
        hashed, poetry = bench.given("hashed.txt", "poetry.lock")
        assert hashed.lock
        assert poetry.lock

    def test_a_file_may_be_named_as_from_here_or_from_the_configuration(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = bench.write("deps/requirements.txt", "jax>=1\n")
        monkeypatch.chdir(place.parent)
        assert bench.given("requirements.txt", "deps/requirements.txt")[0].requirements_file == str(place)

    @pytest.mark.parametrize(
        ("base", "problem"),
        [
            ("curent", "neither pins of watchdog.toml, nor a file, nor REF:path; did you mean current?"),
            ("zzz", "the pins are current, next"),
            ("mine", "cannot be compared"),
            ("watchdog.toml", "cannot be compared; what is read is a requirements file, uv.lock"),
            ("pdm.lock", "cannot be compared"),
            ("setup.py", "cannot be compared"),
            ("next", "both sides are next: there is nothing to compare"),
        ],
    )
    def test_what_is_no_side_is_refused_in_a_sentence(self, bench: Bench, base: str, problem: str) -> None:
        for file in ("pdm.lock", "setup.py"):
            bench.write(file, "")
        assert problem in bench.refused(base, "next")


class TestRefs:
    def test_a_file_at_a_ref_is_there_with_all_that_it_names(self, bench: Bench) -> None:
        """The tree of the commit, not of today, however the file changes."""
        bench.git("init")
        bench.write("deps/requirements.txt", "-r base.txt\n")
        bench.write("deps/base.txt", "jax==1.0\n")
        bench.commit()
        bench.write("deps/base.txt", "jax==2.0\n")
        place = refs.file_at("HEAD:deps/requirements.txt", bench.folder)
        assert place.with_name("base.txt").read_text() == "jax==1.0\n"
        bench.commit()
        assert refs.file_at("HEAD:deps/base.txt", bench.folder).read_text() == "jax==2.0\n"
        assert refs.file_at("main~1:deps/base.txt", bench.folder).read_text() == "jax==1.0\n"
        base, _ = bench.given("HEAD~1:deps/base.txt", "current")
        assert base.requirements_file

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ("gone:requirements.txt", "git knows no ref gone here; fetch it first"),
            ("--output=x:requirements.txt", "git knows no ref"),
            ("HEAD:gone.txt", "there is no gone.txt at HEAD"),
        ],
    )
    def test_a_ref_or_file_that_is_not_there(self, bench: Bench, given: str, problem: str) -> None:
        bench.git("init")
        bench.commit()
        assert problem in bench.refused(given, "current")

    def test_a_folder_without_git(self, bench: Bench) -> None:
        assert "is in no git repository" in bench.refused("HEAD:uv.lock", "current")


class TestDifference:
    def test_jax_comes_first_then_what_the_user_names(self, bench: Bench) -> None:
        """Direct and transitive, each with both versions."""
        base, head = bench.lock("jax==1.0", "tree==1.0", "leaf==1.0"), bench.lock("jax==2.0", "tree==2.0", "leaf==2.0")
        pins = (Pins(requirements=("jax==1.0", "Tree==1.0")), Pins(requirements=("jax==2.0", "tree==2.0")))
        told = [(one.package, one.depth) for one in bench.differs(base, head, pins).changes]
        assert told == [
            (PackageChange("jax", "1.0", "2.0"), "direct"),
            (PackageChange("jaxlib", "1.0", "2.0"), "transitive"),
            (PackageChange("tree", "1.0", "2.0"), "direct"),
            (PackageChange("leaf", "1.0", "2.0"), "transitive"),
        ]

    def test_a_lock_tells_what_is_direct_where_it_can(self, bench: Bench) -> None:
        lock = bench.write("requirements.txt", "jax==1.0  # via -r requirements.in\njaxlib==1.0  # via jax\n")
        base, head = bench.lock("jax==1.0"), bench.lock("jax==2.0")
        pins = Pins(lock=str(lock))
        assert [one.depth for one in bench.differs(base, head, (pins, pins)).changes][:2] == ["direct", "transitive"]
        lock.write_text("jax==1.0\n", encoding="utf-8")
        assert [one.direct for one in bench.differs(base, head, (pins, pins)).changes] == [None, None]

    def test_another_python_is_a_change(self, bench: Bench) -> None:
        lock = bench.lock("jax==1.0")
        (change,) = bench.differs(lock, replace(lock, python="3.12.1")).changes
        assert change.package == PackageChange("python", lock.python, "3.12.1")

    def test_the_same_lock_is_known(self, bench: Bench) -> None:
        one = bench.lock("jax==1.0")
        assert difference.same_locks([one], [bench.lock("jax==1.0")])
        assert not difference.same_locks([one], [bench.lock("jax==2.0")])
        assert not difference.same_locks([], [])


class TestOutOfStep:
    def test_each_partner_of_another_release_is_warned_of(self, bench: Bench) -> None:
        """What this release of jax asks for is said, as the index has it."""
        one = bench.lock("jax==1.0", "libtpu==1.0")
        assert out_of_step.warnings("base", [one], bench.uv) == ()
        text = "jax==1.0\njaxlib==2.0\nlibtpu==2.0\nnumpy==1.0\n"
        told = out_of_step.warnings("head", [replace(one, text=text)], bench.uv)
        assert told == (
            "head: jax 1.0 wants jaxlib==1.0, but jaxlib is 2.0: they are out of step",
            "head: jax 1.0 wants libtpu==1.0.*, but libtpu is 2.0: they are out of step",
        )

    def test_nothing_is_said_without_jax_or_without_an_answer(self, bench: Bench) -> None:
        assert out_of_step.warnings("head", [bench.lock("libtpu==1.0")], bench.uv) == ()
        unknown = replace(bench.lock("leaf==1.0"), text="jax==9.0\njaxlib==9.0\n")
        assert out_of_step.warnings("head", [unknown], bench.uv) == ()


class TestRelevance:
    BASE = ("jax==1.0", "tree==1.0", "leaf==1.0", "other==1.0")

    def related(self, bench: Bench, *head: str) -> str | None:
        base, after = bench.lock(*self.BASE), bench.lock(*head)
        return relevance.unrelated(bench.config, bench.differs(base, after), [base, after], bench.uv)

    def test_what_no_kernel_imports_is_unrelated(self, bench: Bench) -> None:
        """Standard library, neighbours and relative imports need no package."""
        said = self.related(bench, *self.BASE[:3], "other==2.0")
        assert said == "nothing that the kernels depend on changed: none of them needs other"

    @pytest.mark.parametrize(
        "head",
        [
            ("jax==1.0", "tree==1.0", "leaf==2.0", "other==1.0"),
            ("jax==1.0", "tree==2.0", "leaf==1.0", "other==1.0"),
            ("jax==1.0", "numpy==1.0", "tree==1.0", "leaf==1.0", "other==1.0"),
        ],
    )
    def test_what_a_kernel_needs_is_not(self, bench: Bench, head: tuple[str, ...]) -> None:
        """Imported by name, needed by what is imported, or always in play."""
        assert self.related(bench, *head) is None

    @pytest.mark.parametrize(
        "more",
        [
            "import yaml\n",  # which comes from a package of another name
            "import importlib\nimportlib.import_module('o' + 'ther')\n",
            "def broken(:\n",
        ],
    )
    def test_what_cannot_be_followed_is_never_unrelated(self, bench: Bench, more: str) -> None:
        bench.write("mine/mine.py", KERNEL + more)
        assert self.related(bench, *self.BASE[:3], "other==2.0") is None
