"""Faults become verdicts: their class, their suspect, and a sentence that a kernel's author can act on."""

from __future__ import annotations

import pytest

from watchdog.judges import KernelFacts, judge_run
from watchdog.model import Cell, Check, Environment, Fault, Observation, Outcome, Package, Status, Suspect, Verdict

OLD, NEW = "jax-0.8.3", "jax-0.9.2"
TRACEBACK = """Traceback (most recent call last):
  File "/srv/checks/loading.py", line 20, in load
  File "/srv/env/lib/python3.11/site-packages/jax/_src/pallas/mosaic/interpret/shared_memory.py", line 24, in <module>
    from absl import logging
ModuleNotFoundError: No module named 'absl'
"""
NO_ABSL = Fault("ModuleNotFoundError", "No module named 'absl'", traceback=TRACEBACK, missing="absl")


def environment(pins: str, **versions: str) -> Environment:
    packages = tuple(Package(name.replace("_", "-"), version) for name, version in sorted(versions.items()))
    return Environment(pins, (), f"sha256:{pins}", "", "3.11.7", packages)


ENVIRONMENTS = (
    environment(OLD, jax="0.8.3", jaxlib="0.8.3", libtpu="0.0.32.1", numpy="2.4.6"),
    environment(NEW, jax="0.9.2", jaxlib="0.9.2", libtpu="0.0.37", numpy="2.4.6"),
)


def seen(
    pins: str,
    fault: Fault | None = None,
    *,
    implementation: str = "custom",
    check: Check = Check.IMPORT,
    outcome: Outcome | None = None,
    log_tail: str = "",
) -> Observation:
    cell = Cell("flash", implementation, "", pins, "tpu:v5e" if check is not Check.IMPORT else "", check)
    return Observation(cell, outcome or (Outcome.FAILED if fault else Outcome.OBSERVED), fault=fault, log_tail=log_tail)


def verdict_of(
    *observations: Observation,
    environments: tuple[Environment, ...] = ENVIRONMENTS,
    baseline: str | None = OLD,
    own: frozenset[str] = frozenset(),
) -> Verdict:
    """The verdict on the first observation's cell."""
    verdicts = judge_run(observations, environments, baseline, {"flash": KernelFacts(own)})
    return next(verdict for verdict in verdicts if verdict.cell == observations[0].cell)


def test_missing_package_of_a_release() -> None:
    """The upstream kernel that a release broke: a missing module, who imports it, and that the lock lacks it."""
    verdict = verdict_of(seen(NEW, NO_ABSL), seen(OLD), seen(NEW, implementation="native"))
    assert (verdict.status, verdict.kind, verdict.suspect) == (
        Status.REGRESSED,
        "missing dependency",
        Suspect.LIBRARY,
    )
    assert verdict.baseline == OLD
    assert verdict.figure is None
    assert verdict.summary == (
        "cannot be imported under jax-0.9.2: module absl is missing; jax 0.9.2 imports it; "
        "nothing in the lock provides it (absl-py would); jax-0.8.3 imports fine; "
        "came with jax 0.8.3 → 0.9.2, libtpu 0.0.32.1 → 0.0.37"
    )


def test_module_removed_from_an_installed_package() -> None:
    """A module of a package that is in the lock is a missing name, not a missing dependency."""
    fault = Fault("ModuleNotFoundError", "No module named 'jax.experimental.maps'")
    verdict = verdict_of(seen(NEW, fault), seen(OLD))
    assert verdict.kind == "missing name"
    assert "jax.experimental.maps is not in jax 0.9.2: removed in 0.4.31" in verdict.summary


def test_broken_before_and_after() -> None:
    """A fault that the baseline shows too is still regressed, and the kernel's own."""
    verdict = verdict_of(seen(NEW, NO_ABSL), seen(OLD, NO_ABSL), seen(NEW, implementation="native"))
    assert (verdict.status, verdict.suspect) == (Status.REGRESSED, Suspect.KERNEL)
    assert "already under the baseline jax-0.8.3" in verdict.summary
    assert "came with" not in verdict.summary


def test_the_baseline_itself_is_broken() -> None:
    """A fault in the baseline's own cell is judged against nothing, and is the kernel's."""
    verdict = verdict_of(seen(OLD, NO_ABSL), seen(OLD, implementation="native"))
    assert (verdict.status, verdict.suspect, verdict.baseline) == (Status.REGRESSED, Suspect.KERNEL, None)


def test_native_shows_it_as_well() -> None:
    """What native shows as well is the library's, even when it is there under the baseline too."""
    native = (seen(NEW, NO_ABSL, implementation="native"), seen(OLD, NO_ABSL, implementation="native"))
    assert verdict_of(seen(NEW, NO_ABSL), seen(OLD, NO_ABSL), *native).suspect is Suspect.LIBRARY


def test_native_fails_otherwise() -> None:
    """Another fault of native does not excuse the kernel."""
    native = seen(NEW, Fault("ValueError", "bad shape"), implementation="native")
    assert verdict_of(seen(NEW, NO_ABSL), seen(OLD, NO_ABSL), native).suspect is Suspect.KERNEL


def test_only_the_kernels_own_package_changed() -> None:
    """A fault that came with the kernel's own package alone is the kernel's."""
    environments = (environment(OLD, jax="0.8.3", my_kernel="1.0"), environment(NEW, jax="0.8.3", my_kernel="1.1"))
    verdict = verdict_of(seen(NEW, NO_ABSL), seen(OLD), environments=environments, own=frozenset({"My_Kernel"}))
    assert verdict.suspect is Suspect.KERNEL
    assert "the kernel's own package changed: my-kernel 1.0 → 1.1" in verdict.summary


def test_own_and_other_packages_changed() -> None:
    """When both changed the suspect stays open, and the sentence names both."""
    environments = (environment(OLD, jax="0.8.3", my_kernel="1.0"), environment(NEW, jax="0.9.2", my_kernel="1.1"))
    verdict = verdict_of(seen(NEW, NO_ABSL), seen(OLD), environments=environments, own=frozenset({"my-kernel"}))
    assert verdict.suspect is None
    assert "my-kernel 1.0 → 1.1" in verdict.summary
    assert "jax 0.8.3 → 0.9.2" in verdict.summary


def test_nothing_changed() -> None:
    """The same packages and another outcome: only the machine is left."""
    environments = (environment(OLD, jax="0.8.3"), environment(NEW, jax="0.8.3"))
    assert verdict_of(seen(NEW, NO_ABSL), seen(OLD), environments=environments).suspect is Suspect.MACHINE


def test_no_baseline() -> None:
    """Without a baseline an error is still regressed; nobody can be suspected."""
    verdict = verdict_of(seen(NEW, NO_ABSL), baseline=None)
    assert (verdict.status, verdict.suspect, verdict.baseline) == (Status.REGRESSED, None, None)


def test_repaired() -> None:
    """What failed under the baseline and works now improved."""
    verdict = verdict_of(seen(NEW), seen(OLD, NO_ABSL))
    assert (verdict.status, verdict.kind) == (Status.IMPROVED, "repaired")
    assert verdict.summary.startswith("imports fine under jax-0.9.2; under jax-0.8.3 it failed: module absl is missing")


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("AttributeError", "module 'jax.experimental.pallas' has no attribute 'store'", "missing name"),
        ("ImportError", "cannot import name 'maps' from 'jax.experimental'", "missing name"),
        ("TypeError", "f() got an unexpected keyword argument 'scale'", "wrong argument"),
        ("NotImplementedError", "Unsigned integers are not supported in matmul", "unsupported"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom:\nRan out of memory", "out of VMEM"),
        ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while", "out of VMEM"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total", "out of HBM"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: no more", "out of device memory"),
        ("RuntimeError", "the version of libtpu must be at most a month old", "pins mismatch"),
        ("MosaicError", "Unsupported version: expected <= 7 but got 8", "pins mismatch"),
        ("JaxRuntimeError", "INVALID_ARGUMENT: Failed to parse the backend config", "pins mismatch"),
        ("JaxRuntimeError", "Dialect `sdy' not found: unregistered operation 'sdy.mesh'", "pins mismatch"),
        ("IndexError", "Out-of-bounds read of 0:8", "out of bounds"),
        ("ValueError", "Invalid shape for `swap`", "wrong type or shape"),
        ("JaxRuntimeError", "INTERNAL: Mosaic failed to compile TPU kernel", "compiler error"),
        ("KeyError", "'x'", "error"),
    ],
)
def test_error_texts(kind: str, message: str, expected: str) -> None:
    """Spellings of several releases are matched by their text, whatever their class is called."""
    assert verdict_of(seen(NEW, Fault(kind, message), check=Check.COMPILE)).kind == expected


CALLBACK = """INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):
  File "/srv/scratch/4f2a/run.py", line 31, in <module>
  File "/srv/env/lib/python3.11/site-packages/jax/_src/pjit.py", line 259, in cache_miss
  File "/srv/env/lib/python3.11/site-packages/jax/_src/callback.py", line 226, in _callback
  File "/srv/env/lib/python3.11/site-packages/jax/_src/callback.py", line 71, in __call__
{frames}{raised}"""
_MINE = '  File "/srv/kernels/mine.py", line 4, in lookup\n'
_INSTALLED = '  File "/srv/env/lib/python3.11/site-packages/mine/look.py", line 7, in up\n'
_OF_JAX = '  File "/srv/env/lib/python3.11/site-packages/jax/_src/lax/lax.py", line 2, in dot\n'


@pytest.mark.parametrize(
    ("frames", "raised", "kind", "quoted", "where"),
    [
        (_MINE, "ValueError: the real thing", "wrong type or shape", "ValueError: the real thing", "mine.py:4"),
        (_INSTALLED, "mine.errors.Own: two\nlines: here", "error", "Own: two lines: here", "mine/look.py:7"),
        (_MINE + _OF_JAX, "TypeError: shapes, got (4,) and (5,).", "wrong type or shape", "TypeError: shapes", "mine.py:4"),
        ("", "RuntimeError: Incorrect output shape", "error", "RuntimeError: Incorrect output shape", "probe.py:9"),
        (_MINE, "RuntimeError: ", "error", "RuntimeError;", "mine.py:4"),
        (_MINE, "KeyError", "error", "KeyError;", "mine.py:4"),
        (_MINE, "ModuleNotFoundError: No module named 'absl'", "missing dependency", "module absl is missing", "mine.py:4"),
    ],
)  # fmt: skip
def test_what_a_callback_raised(frames: str, raised: str, kind: str, quoted: str, where: str) -> None:
    """The fault is the callback's own exception, in the callback's own line, and not an error of the compiler."""
    fault = Fault(
        "JaxRuntimeError", CALLBACK.format(frames=frames, raised=raised), where="probe.py:9", traceback=TRACEBACK
    )
    verdict = verdict_of(seen(NEW, fault, check=Check.NUMERICS), seen(OLD, check=Check.NUMERICS))
    assert (verdict.kind, verdict.where) == (kind, where)
    assert f": {quoted}" in verdict.summary
    assert "scratch" not in verdict.summary
    assert "imports it" not in verdict.summary


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INTERNAL: CpuCallback error: Traceback", ""),  # jax 0.5.3
        (
            "INTERNAL: CpuCallback error calling callback: Traceback",
            "\n=== Source Location Trace: === \nxla/ffi.cc:170\n",
        ),
    ],
)
def test_what_a_callback_raised_in_older_and_newer_releases(before: str, after: str) -> None:
    """The exception is found with the beginning of jax 0.5.3, and above the compiler's files of jax 0.12."""
    told = CALLBACK.format(frames=_MINE, raised="KeyError").partition(" Traceback")[2]
    verdict = verdict_of(seen(NEW, Fault("XlaRuntimeError", f"{before}{told}{after}"), check=Check.NUMERICS))
    assert verdict.where == "mine.py:4"
    assert verdict.summary.endswith(": KeyError")


def test_a_callback_that_calls_another() -> None:
    """Of several tracebacks in one message the innermost exception is the fault."""
    inner = CALLBACK.format(frames=_MINE, raised="IndexError: 9")
    fault = Fault("JaxRuntimeError", CALLBACK.format(frames=_INSTALLED, raised=f"jax.errors.JaxRuntimeError: {inner}"))
    assert verdict_of(seen(NEW, fault, check=Check.NUMERICS)).kind == "out of bounds"


@pytest.mark.parametrize(
    "message",
    [
        "INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):\n  File",
        "INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):\n",
        "INTERNAL: CpuCallback error: it went away",
    ],
)
def test_a_callbacks_error_that_was_cut_off(message: str) -> None:
    """Where no exception stands at the end, jax's own words are all there is."""
    assert verdict_of(seen(NEW, Fault("JaxRuntimeError", message), check=Check.NUMERICS)).kind == "compiler error"


def test_versions_that_do_not_fit() -> None:
    """An error that says so is about the pins, not about the kernel, whatever native does."""
    fault = Fault("MosaicError", "Unsupported version: expected <= 7 but got 8")
    assert verdict_of(seen(NEW, fault, check=Check.COMPILE), seen(OLD, check=Check.COMPILE)).suspect is Suspect.PINS


def test_vmem_needed_and_allowed() -> None:
    """The sentence on VMEM gives the size that is needed, the limit, and what helps."""
    message = "Ran out of memory in memory space vmem. Scoped allocation with size 22.00M and limit 16.00M exceeded scoped vmem limit by 6.00M."
    verdict = verdict_of(seen(NEW, Fault("JaxRuntimeError", message), check=Check.COMPILE))
    assert "does not compile for tpu:v5e under jax-0.9.2" in verdict.summary
    assert "it needs 22 MiB of scoped VMEM, the limit is 16 MiB; smaller blocks or a higher" in verdict.summary


@pytest.mark.parametrize(
    ("outcome", "fault", "kind"),
    [
        (Outcome.CRASHED, Fault("signal 6 (SIGABRT)", ""), "crash"),
        (Outcome.HUNG, Fault("time limit", "stopped after 300 s"), "time limit"),
        (Outcome.OUT_OF_MEMORY, Fault("memory limit", "8 GiB"), "memory limit"),
        (Outcome.CRASHED, None, "crash"),
    ],
)
def test_killed_processes(outcome: Outcome, fault: Fault | None, kind: str) -> None:
    """A process that died, hung or grew too large is a finding of its cell, even when nothing else is known."""
    verdict = verdict_of(seen(NEW, fault, outcome=outcome, check=Check.COMPILE))
    assert (verdict.status, verdict.kind) == (Status.REGRESSED, kind)


def test_crash_whose_log_tells_why() -> None:
    """An aborting compiler leaves its reason in the log only."""
    log = "F0000 client.cc:12] Unsupported version: expected <= 7 but got 8\n*** Check failure stack trace ***"
    crash = seen(NEW, Fault("signal 6 (SIGABRT)", ""), outcome=Outcome.CRASHED, log_tail=log, check=Check.COMPILE)
    assert verdict_of(crash).suspect is Suspect.PINS


def test_schedule_that_only_the_dump_hides() -> None:
    """When the dump aborts and the compiler accepts the kernel, nothing is held against the kernel."""
    crash = seen(NEW, Fault("signal 6 (SIGABRT)", ""), outcome=Outcome.CRASHED, check=Check.SCHEDULE)
    verdict = verdict_of(crash, seen(NEW, check=Check.COMPILE))
    assert (verdict.status, verdict.kind) == (Status.INCONCLUSIVE, "unreadable")


@pytest.mark.parametrize(
    ("message", "kind", "suspect"),
    [
        ("No solution found when resolving dependencies: jax==0.99 is unsatisfiable", "unresolvable", Suspect.PINS),
        ("error sending request for url: dns error", "no network", Suspect.MACHINE),
        ("Failed to build `x==1`", "build failure", Suspect.PINS),
    ],
)
def test_installations_that_fail(message: str, kind: str, suspect: Suspect) -> None:
    """Pins that cannot be installed are the pins' fault; an unreachable network is not."""
    cell = Cell("", "", "", NEW, "", Check.INSTALL)
    verdict = verdict_of(Observation(cell, Outcome.FAILED, fault=Fault("UvError", message)))
    assert (verdict.status, verdict.kind, verdict.suspect) == (Status.REGRESSED, kind, suspect)


def test_text_from_outside_stays_one_line() -> None:
    """Control characters and line breaks of an error never reach a summary."""
    verdict = verdict_of(seen(NEW, Fault("ValueError", "a\x1b[31mred\nline\r\n" + "x" * 5000)))
    assert verdict.summary.isprintable()
    assert len(verdict.summary) < 1000
