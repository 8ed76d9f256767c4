"""Memory watched for real: ten ways of using a clean kernel, ways of calling that leak, and kernels with bad manners."""

from __future__ import annotations

import pytest

from tests.projects import NEW, Project, Results
from watchdog.model import Check, Observation, Outcome, Scenario, Status, Suspect, Verdict

pytestmark = pytest.mark.real

KERNEL = """
[[kernel]]
name = "{name}"
custom = "ways:{name}"
native = "ways:plain"
path = "."
scenarios = [{scenarios}]

[[kernel.case]]
name = "small"
args = ["f32[64,64]"]
"""
BEGIN = f"""
[watchdog]
checks = ["import", "memory"]
memory_budget = "3s"

[service]
calls_per_second = 10
device_memory = "16GiB"
price_per_hour = 2.0

[pins.now]
requirements = ["{NEW}"]
"""

WAYS = '''
import gc
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

ROW = jax.ShapeDtypeStruct((64, 64), jnp.float32)
_log, _errors = [], []


@jax.jit
def _double(x):
    return x * 2


def plain(x):
    return _double(x)


def clean(x):
    return jnp.tanh(x) @ jnp.ones((x.shape[-1], 8), x.dtype)


def logged(x):
    result = _double(x)
    _log.append(result)  # kept
    return result


class _Session:
    def __init__(self, x):
        self.x, self.me = _double(x), self  # a cycle


def cyclic(x):
    return _double(_Session(x).x)


def callback(x):
    """A new Python function for each request."""
    scale = float(np.asarray(x)[0, 0])
    return jax.pure_callback(lambda v: np.asarray(v) * scale, ROW, x)  # compiled


def excused(x):
    """Keeps each request's exception, whose frame holds the request's array."""
    result = _double(x)  # held
    try:
        raise ValueError("no")
    except ValueError as error:
        _errors.append(error)
    return result


def raises(x):
    raise RuntimeError("no capacity")


def returns_nothing(x):
    _double(x)


def frees_inputs(x):
    result = _double(x)
    x.delete()
    return result


def forks(x):
    if os.fork() == 0:
        return x  # the child comes back as well
    os.wait()
    return _double(x)


def starts_threads(x):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return _double(x)


def tunes_the_collector(x):
    gc.disable()
    return _double(x)


def takes_one_length(x):
    if x.shape[0] % 64:
        raise ValueError("rows must be a multiple of 64")
    return x * 2


def whole_numbers(x):
    return jnp.round(x).astype(jnp.int32)
'''
MANNERS = ("returns_nothing", "frees_inputs", "forks", "starts_threads", "tunes_the_collector")
EAGER = ("logged", "cyclic", "callback", "excused", "raises", *MANNERS)


def text() -> str:
    everything = ", ".join(f'"{scenario}"' for scenario in Scenario)
    kernels = [("clean", everything), *((name, '"eager"') for name in EAGER)]
    kernels += [("takes_one_length", '"shapes"'), ("whole_numbers", '"grad"')]
    return BEGIN + "".join(KERNEL.format(name=name, scenarios=scenarios) for name, scenarios in kernels)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("ways"))
    project.write("watchdog.toml", text())
    project.write("ways.py", WAYS)
    return project


@pytest.fixture(scope="module")
def results(project: Project) -> Results:
    """One run of everything above."""
    ended = project.watchdog("run", "--quiet")
    assert ended.code == 1, ended.stderr
    return project.results()


def verdict(results: Results, kernel: str, scenario: str = "eager") -> Verdict:
    return results.verdict(Check.MEMORY, kernel=kernel, implementation="custom", scenario=scenario)


def observation(results: Results, kernel: str, scenario: str = "eager") -> Observation:
    return results.observation(Check.MEMORY, kernel=kernel, implementation="custom", scenario=scenario)


def line(mark: str) -> str:
    """The line of `ways.py` on which a mark stands."""
    lines = WAYS.lstrip("\n").splitlines()
    return f"ways.py:{next(number for number, one in enumerate(lines, 1) if mark in one)}"


def test_a_clean_kernel_is_clean_in_all_scenarios(results: Results) -> None:
    """Ten scenarios, all observed, none of them alarming, each with the smallest leak that it would have seen."""
    for scenario in Scenario:
        seen, judged = observation(results, "clean", scenario), verdict(results, "clean", scenario)
        assert seen.outcome is Outcome.OBSERVED, (scenario, seen.fault, seen.reason)
        assert judged.status is Status.PASS, (scenario, judged.summary)
        assert judged.detectable is not None
        assert "would have been seen" in judged.summary


def test_what_scenarios_are_made_of_is_kept(results: Results) -> None:
    """The lengths, the failing share, the threads and the calls in flight stand in the observations."""
    assert observation(results, "clean", "shapes").data["lengths"] == [64, 48, 32, 16]
    assert observation(results, "clean", "errors").data["raises_every"] == 5
    assert observation(results, "clean", "threads").data["threads"] == 4
    assert observation(results, "clean", "async").data["in_flight"] == 32
    assert observation(results, "clean", "reload").data["reloads"] == "ways"
    assert observation(results, "clean", "donate").data["program"]["temp_bytes"] is not None


def test_a_log_that_nobody_empties(results: Results) -> None:
    """One array per call: exact size, the allocating line, the holder, and the cost in hours and money."""
    found = verdict(results, "logged")
    assert (found.status, found.kind, found.suspect) == (Status.REGRESSED, "leak", Suspect.KERNEL)
    assert found.figure is not None
    assert (found.figure.value, found.figure.unit) == (64 * 64 * 4, "B/call")
    assert found.where == line("result = _double(x)")
    assert f"kept alive by _log in {line('_log, _errors')}" in found.summary
    assert "hours at 10 calls/s" in found.summary
    assert "restarts a week" in found.summary
    assert "USD a week" in found.summary


def test_what_only_the_collector_frees(results: Results) -> None:
    """A session that refers to itself is told by its class, with what piles up meanwhile."""
    found = verdict(results, "cyclic")
    assert (found.status, found.kind, found.where) == (Status.REGRESSED, "collector", line("# a cycle"))
    assert "reference cycles of ways._Session objects" in found.summary
    assert "pile up within" in found.summary


def test_a_cache_that_grows(results: Results) -> None:
    """A fresh callback costs an executable per call, which jax's caches hold up to a limit that is read."""
    found = verdict(results, "callback")
    assert (found.status, found.kind, found.signal) == (Status.REGRESSED, "cache growth", "live_executables")
    assert found.figure is not None
    assert found.figure.value == pytest.approx(1, rel=0.02)
    assert found.where == line("# compiled")
    assert "jax.clear_caches() frees it" in found.summary
    assert "entries" in found.summary


def test_an_exception_that_is_kept(results: Results) -> None:
    """Its traceback's frame holds the array; the list that holds the exception is named, not the frame."""
    found = verdict(results, "excused")
    assert (found.kind, found.where) == ("leak", line("# held"))
    assert "kept alive by _errors" in found.summary


def test_native_is_clean(results: Results) -> None:
    """No alarm is raised by what all of them are compared with."""
    native = [one for one in results.verdicts if one.cell.implementation == "native"]
    assert {one.status for one in native} == {Status.PASS}


def test_a_kernel_that_raises_is_a_sentence(results: Results) -> None:
    """The first call's error is the observation, with its line."""
    found = verdict(results, "raises")
    assert (found.status, found.where) == (Status.REGRESSED, line("no capacity"))
    assert "no capacity" in found.summary


@pytest.mark.parametrize("kernel", MANNERS)
def test_bad_manners_are_no_leak(results: Results, kernel: str) -> None:
    """Kernels that return nothing, free their inputs, fork, start threads or tune the collector are watched all the same."""
    assert observation(results, kernel).outcome is Outcome.OBSERVED
    assert verdict(results, kernel).status is Status.PASS, verdict(results, kernel).summary


def test_bad_manners_are_told(results: Results) -> None:
    """What a caller should know stands in the sentence."""
    assert "frees its inputs" in verdict(results, "frees_inputs").summary
    assert "settings of Python's garbage collector" in verdict(results, "tunes_the_collector").summary


def test_what_does_not_apply_is_skipped(results: Results) -> None:
    """A kernel of one length has no varying ones, and whole numbers no gradient: skipped, with the reason."""
    one_length = verdict(results, "takes_one_length", "shapes")
    assert one_length.status is Status.SKIPPED
    assert "takes no other length than 64: ValueError: rows must be a multiple of 64" in one_length.summary
    assert verdict(results, "whole_numbers", "grad").status is Status.SKIPPED
