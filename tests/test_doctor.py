"""The doctor tells what a machine can answer, and mends what it can name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.wheelhouse import Wheelhouse
from watchdog import doctor, machine
from watchdog.doctor import Finding, Level, examine
from watchdog.environments import EnvironmentCache
from watchdog.errors import UsageError
from watchdog.uv import Answer, Uv, run_process


def machine_with(root: Path, *, files: Sequence[str] = (), pci: Sequence[tuple[str, str, str]] = ()) -> Path:
    """A root folder with device files, and PCI slots of (vendor, device, class)."""
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    for number, (vendor, device, kind) in enumerate(pci):
        slot = root / f"sys/bus/pci/devices/0000:00:{number:02}.0"
        slot.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            (slot / name).write_text(f"{text}\n", encoding="utf-8")
    return root


V5E = ("0x1ae0", "0x0063", "0xff0000")
GOOGLE_NETWORK_CARD = ("0x1ae0", "0x0042", "0x020000")


@pytest.mark.parametrize(
    ("files", "pci", "packages", "expected"),
    [
        ([], [], ["libtpu"], "cpu"),
        (["dev/accel0"], [], ["libtpu"], "tpu"),
        (["dev/accel0"], [], ["jax"], "cpu"),
        (["dev/vfio/vfio", "dev/vfio/0"], [V5E], ["libtpu"], "tpu"),
        (["dev/vfio/vfio", "dev/vfio/0"], [GOOGLE_NETWORK_CARD], ["libtpu"], "cpu"),
        (["dev/vfio/vfio"], [V5E], ["libtpu"], "cpu"),
        (["dev/nvidia0"], [], ["jax-cuda12-plugin", "libtpu"], "gpu"),
        (["dev/nvidia0"], [], ["libtpu"], "cpu"),
        (["dev/nvidia0"], [], ["jax-rocm7-plugin"], "cpu"),
        (["dev/kfd"], [], ["jax-rocm7-plugin"], "gpu"),
    ],
)
def test_a_platform_needs_its_device_and_its_plugin(
    tmp_path: Path, files: list[str], pci: list[tuple[str, str, str]], packages: list[str], expected: str
) -> None:
    """jax runs on an accelerator only where both the machine and the lock have their part."""
    host = machine.host_platform(packages, machine_with(tmp_path, files=files, pci=pci))
    assert host.platform == expected


def test_the_reason_names_what_is_missing(tmp_path: Path) -> None:
    """A TPU that the lock cannot use is not passed over in silence."""
    host = machine.host_platform(["jax"], machine_with(tmp_path, files=["dev/accel0"]))
    assert host.reason == "/dev/accel0 is here, but the lock lacks libtpu"


def test_the_tightest_limit_of_the_control_groups_counts(tmp_path: Path) -> None:
    """A container's memory and time limits, not the machine's, say what may be used."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n", encoding="utf-8")
    for group, memory, cpu in (("outer", "2000000", "150000 100000"), ("outer/inner", "max", "max 100000")):
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(f"{memory}\n", encoding="utf-8")
        (folder / "cpu.max").write_text(f"{cpu}\n", encoding="utf-8")
    assert machine.memory_limit(tmp_path) == machine.usable_memory(tmp_path) == 2_000_000
    assert machine.core_quota(tmp_path) == 1.5


def test_no_control_group_is_no_limit(tmp_path: Path) -> None:
    """Without files there is neither limit nor quota."""
    assert (machine.memory_limit(tmp_path), machine.core_quota(tmp_path)) == (None, None)


def test_the_facts_of_a_run_name_no_machine() -> None:
    """Counts, bytes and versions only, all of them known here."""
    facts = machine.facts()
    assert isinstance(facts["cores"], int)
    assert facts["cores"] >= 1
    assert not {"hostname", "node", "user"} & facts.keys()


def examined(tmp_path: Path, uv: Uv, *, root: Path | None = None) -> dict[str, list[Finding]]:
    findings = examine(
        lambda: uv, lambda tool: EnvironmentCache(tmp_path / "cache", tool), lambda: None, root or tmp_path / "bare"
    )
    return {topic: [one for one in findings if one.topic == topic] for topic in (one.topic for one in findings)}


def test_a_machine_that_works_has_no_problem(tmp_path: Path) -> None:
    """With an index, a cache and a store, nothing is left to mend."""
    house = Wheelhouse(tmp_path / "house")
    house.add("packaging", "25.0")
    found = examined(tmp_path, house.uv())
    assert [one for topic in found.values() for one in topic if one.level is Level.PROBLEM] == []
    assert {"python", "uv", "interpreters", "index", "cache", "device", "cores", "memory", "store"} <= found.keys()


def test_without_a_device_it_says_how_each_check_is_answered(tmp_path: Path) -> None:
    """Compiler alone, interpretation, and what is skipped."""
    (finding,) = examined(tmp_path, Wheelhouse(tmp_path / "house").uv())["device"]
    assert finding.level is Level.NOTE
    for word in ("compiler alone", "interpretation", "skipped"):
        assert word in finding.sentence


def test_a_tpu_is_named_with_its_generation(tmp_path: Path) -> None:
    """The PCI id tells which one."""
    root = machine_with(tmp_path / "root", files=["dev/vfio/0"], pci=[V5E])
    (finding,) = examined(tmp_path, Wheelhouse(tmp_path / "house").uv(), root=root)["device"]
    assert (finding.level, "TPU v5e" in finding.sentence) == (Level.OK, True)


def test_an_index_without_the_package_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    """An index that does not answer is named with uv's words and the ways out."""
    (finding,) = examined(tmp_path, Wheelhouse(tmp_path / "house").uv())["index"]
    assert finding.level is Level.PROBLEM
    assert "packaging" in finding.sentence
    assert "UV_DEFAULT_INDEX" in finding.remedy


def test_an_old_uv_is_a_problem(tmp_path: Path) -> None:
    """What it needs and how to get it is said."""
    real = Wheelhouse(tmp_path / "house").uv()

    def old(command: Sequence[str], **rest: object) -> Answer:
        if "--version" in command:
            return Answer(0, "uv 0.4.30\n", "", 0.0)
        return run_process(command, **rest)  # type: ignore[arg-type]  # passed on as they came

    (finding,) = examined(tmp_path, Uv(real.binary, real.environment, old))["uv"]
    assert (finding.level, finding.remedy) == (Level.PROBLEM, "pip install --upgrade uv")


def test_a_missing_uv_leaves_the_rest_examined(tmp_path: Path) -> None:
    """One failure is one finding."""

    def missing() -> Uv:
        msg = "uv is missing"
        raise UsageError(msg)

    findings = examine(missing, lambda tool: EnvironmentCache(tmp_path, tool), lambda: None, tmp_path)
    assert [one.sentence for one in findings if one.level is Level.PROBLEM] == ["uv is missing"]
    assert {"device", "cores", "memory", "store"} <= {one.topic for one in findings}


def test_a_store_that_does_not_open_is_shown_without_its_password(tmp_path: Path) -> None:
    """The driver's message is text from outside."""

    def broken() -> None:
        msg = "postgresql://me:s3cret@db/w: \x1b[31mrefused"
        raise UsageError(msg)

    uv = Wheelhouse(tmp_path / "house").uv()
    findings = examine(lambda: uv, lambda tool: EnvironmentCache(tmp_path / "cache", tool), broken, tmp_path / "bare")
    (finding,) = [one for one in findings if one.topic == "store"]
    assert finding.level is Level.PROBLEM
    assert "s3cret" not in finding.sentence
    assert "\x1b" not in finding.sentence


def test_a_shared_environment_is_a_problem() -> None:
    """PyPI's own `watchdog` and `kernels` import under our names."""
    findings = doctor._own_environment({"watchdog", "kernels", "rich"})
    assert [one.level for one in findings] == [Level.PROBLEM, Level.PROBLEM]
    assert "uv tool install" in findings[0].remedy
    assert [one.level for one in doctor._own_environment({"rich"})] == [Level.OK]


def test_a_cache_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    """The folder is named, and the key of the configuration that moves it."""
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    (finding,) = examined(tmp_path, Wheelhouse(tmp_path / "house").uv())["cache"]
    assert (finding.level, str(tmp_path / "cache") in finding.sentence) == (Level.PROBLEM, True)
    assert finding.remedy.startswith("set `environments` of [watchdog] in the configuration")


@pytest.mark.real
def test_the_real_index_answers(tmp_path: Path) -> None:
    """The real uv asks the real index."""
    assert [one.level for one in examined(tmp_path, Uv.found())["index"]] == [Level.OK]
