"""Runs that never happened, to publish: one that looks real, one made of hostile text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from watchdog.model import (
    Amount,
    Cell,
    Check,
    Environment,
    Fault,
    Figure,
    Observation,
    Outcome,
    Package,
    Status,
    Suspect,
    Verdict,
)
from watchdog.publish.story import RunReport

KERNELS = ("flash_attention", "jax_flash_attention")
PINS = ("jax-0.8.3", "jax-0.9.2", "jax-0.10.2")
BASELINE = PINS[0]
CASES = ("small", "prefill_2k_causal", "prefill_2k_full", "grouped_query")
TPUS = ("tpu:v5e", "tpu:v6e")
BROKEN = ("jax_flash_attention", "custom", "jax-0.9.2")
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m\x07\u202egnp.exe\x00"

_TRACEBACK = """Traceback (most recent call last):
  File "checks/loading.py", line 41, in load
    module = importlib.import_module(name)
  File "site-packages/jax/experimental/pallas/ops/tpu/flash_attention.py", line 24, in <module>
    from absl import logging
ModuleNotFoundError: No module named 'absl'
"""


def realistic(run_id: str = "2026-01-31T02:00:00Z-7f3a", *, broken: bool = True) -> RunReport:
    """Two kernels under three pins; with `broken`, the library's kernel does not import under jax 0.9.2."""
    observations = tuple(_observations(broken=broken))
    return RunReport(
        run_id=run_id,
        started=run_id.rpartition("-")[0],
        finished=run_id.replace("02:00:00", "02:02:11").rpartition("-")[0],
        state="finished",
        exit_code=1 if broken else 0,
        program_version="0.1.0",
        baseline=BASELINE,
        kernels=KERNELS,
        pins=PINS,
        targets=("host", *TPUS),
        machine={"System": "Debian 12, Linux 6.1", "Processor": "2 cores, x86_64", "Memory": "24 GiB", "Device": "cpu"},
        environments=tuple(_environment(pins) for pins in PINS),
        observations=observations,
        verdicts=tuple(_verdicts(observations)),
    )


def shared() -> RunReport:
    """Both kernels have one native, asked once for both: under jax 0.10.2 it leaks and its schedule cannot be read."""
    whole = realistic(broken=False)
    native = {
        one.cell: replace(one.cell, kernel=KERNELS[0])
        for one in whole.observations
        if (one.cell.kernel, one.cell.implementation) == (KERNELS[1], "native")
    }
    observations = tuple(
        replace(one, data={**one.data, "same_as": native[one.cell].address}) if one.cell in native else one
        for one in whole.observations
    )
    asked = {*native, *native.values()}
    verdicts = tuple(
        replace(one, status=Status.REGRESSED, summary="keeps 16 KiB per call", kind="leak", suspect=Suspect.LIBRARY)
        if one.cell in asked and (one.cell.check, one.cell.pins) == (Check.MEMORY, PINS[2])
        else one
        for one in whole.verdicts
    )
    return replace(whole, observations=observations, verdicts=verdicts)


def empty() -> RunReport:
    """A run that was stopped before it saw anything."""
    whole = realistic()
    return replace(
        whole, finished=None, state="interrupted", exit_code=None, environments=(), observations=(), verdicts=()
    )


def hostile() -> RunReport:
    """Every text that can come from outside attacks; one of them is a megabyte long."""
    long = HOSTILE + "A" * 1_000_000
    cell = Cell(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, Check.MEMORY, HOSTILE)
    fault = Fault(HOSTILE, long, where=HOSTILE, traceback=long, missing=HOSTILE)
    seen = Observation(
        cell,
        Outcome.CRASHED,
        fault=fault,
        data={HOSTILE: HOSTILE, "list": [{HOSTILE: long}], "deep": {"a": {"b": {"c": {"d": {"e": [[[1]]]}}}}}},
        series={HOSTILE: [1.0, 2.0]},
        log_tail=long,
    )
    skipped = Observation(replace(cell, check=Check.TIMING), Outcome.SKIPPED, reason=HOSTILE)
    verdict = Verdict(
        cell,
        Status.REGRESSED,
        long,
        baseline=HOSTILE,
        signal=HOSTILE,
        kind=HOSTILE,
        suspect=Suspect.KERNEL,
        figure=Figure(16384.0, 16000.0, 17000.0, "B/" + HOSTILE),
        detectable=Amount(32, HOSTILE),
        where=HOSTILE,
    )
    dull = Verdict(replace(cell, check=Check.TIMING), Status.SKIPPED, HOSTILE)
    package = Package(HOSTILE, HOSTILE)
    environment = Environment(HOSTILE, (HOSTILE,), "sha256:" + HOSTILE, long, HOSTILE, (package,))
    base = Environment("base", (), "sha256:1", "", "3.11.7", (Package("jax", "0.8.3"),))
    return RunReport(
        run_id="../../" + HOSTILE,
        started=HOSTILE,
        finished=HOSTILE,
        state=HOSTILE,
        exit_code=1,
        program_version=HOSTILE,
        baseline="base",
        kernels=(HOSTILE, "../escape", ""),
        pins=("base", HOSTILE),
        targets=(HOSTILE,),
        machine={HOSTILE: HOSTILE},
        environments=(base, environment),
        observations=(seen, skipped),
        verdicts=(verdict, dull),
    )


def _environment(pins: str) -> Environment:
    versions = {
        "jax-0.8.3": ("0.8.3", "0.0.32.1", {"absl-py": "2.3.1"}),
        "jax-0.9.2": ("0.9.2", "0.0.39", {}),
        "jax-0.10.2": ("0.10.2", "0.0.42.1", {"absl-py": "2.4.0"}),
    }
    jax, libtpu, extra = versions[pins]
    fixed = {"ml-dtypes": "0.5.4", "numpy": "2.3.5", "opt-einsum": "3.4.0", "scipy": "1.16.3", "requests": "2.32.5"}
    names = dict(sorted({"jax": jax, "jaxlib": jax, "libtpu": libtpu, **fixed, **extra}.items()))
    lock = "".join(f"{name}=={version} \\\n    --hash=sha256:{'0f' * 32}\n" for name, version in names.items())
    packages = tuple(Package(name, version) for name, version in names.items())
    return Environment(pins, (), f"sha256:{'3a9c51d7' * 8}", lock, "3.11.7", packages)


def _observations(*, broken: bool) -> Iterator[Observation]:
    for pins in PINS:
        cell = Cell("", "", "", pins, "", Check.INSTALL)
        data = {"requested": [f"jax[tpu]=={pins[4:]}"], "seconds": 3.1, "cached": True, "verified": 9, "tools": {}}
        yield Observation(cell, Outcome.OBSERVED, data=data, seconds=3.1)
        for kernel in KERNELS:
            for implementation in ("custom", "native"):
                fails = broken and (kernel, implementation, pins) == BROKEN
                yield _imported(kernel, implementation, pins, fails=fails)
                yield from (
                    _unreachable(cell) if fails else _seen(cell) for cell in _cells(kernel, implementation, pins)
                )


def _cells(kernel: str, implementation: str, pins: str) -> Iterator[Cell]:
    for case in CASES:
        for check in (Check.LOWER, Check.COMPILE, Check.SCHEDULE):
            for target in TPUS:
                yield Cell(kernel, implementation, case, pins, target, check)
        for check in (Check.NUMERICS, Check.GRADIENTS, Check.RACES, Check.MEMORY, Check.TIMING):
            yield Cell(kernel, implementation, case, pins, "host", check, "steady" if check is Check.MEMORY else "")


def _imported(kernel: str, implementation: str, pins: str, *, fails: bool) -> Observation:
    cell = Cell(kernel, implementation, "", pins, "", Check.IMPORT)
    if fails:
        fault = Fault(
            "ModuleNotFoundError",
            "No module named 'absl'",
            where="flash_attention.py:24",
            traceback=_TRACEBACK,
            missing="absl",
        )
        return Observation(cell, Outcome.FAILED, fault=fault, log_tail=_TRACEBACK, seconds=1.4)
    warning = {"category": "DeprecationWarning", "message": "jax.core.Shape is deprecated", "where": "native.py:8"}
    data = {"module": f"{kernel}.{implementation}", "function": "attention", "seconds": 0.31, "warnings": [warning]}
    return Observation(cell, Outcome.OBSERVED, data=data, seconds=1.2)


def _unreachable(cell: Cell) -> Observation:
    return Observation(cell, Outcome.SKIPPED, reason="does not import: No module named 'absl'")


def _seen(cell: Cell) -> Observation:
    if cell.check is Check.TIMING and cell.implementation == "custom":
        return Observation(cell, Outcome.SKIPPED, reason="this machine has no TPU, and interpreted time means nothing")
    if cell.check is Check.SCHEDULE and cell.implementation == "native" and cell.pins == BASELINE:
        fault = Fault("signal 6 (SIGABRT)", "the compiler aborted while it wrote the schedule")
        return Observation(
            cell, Outcome.CRASHED, fault=fault, log_tail="F0131 llo_dump.cc:88] Check failed\n", seconds=4
        )
    return Observation(cell, Outcome.OBSERVED, data=_data(cell), series=_series(cell), seconds=0.6)


def _data(cell: Cell) -> dict[str, object]:
    native, newest = cell.implementation == "native", PINS.index(cell.pins)
    bundles = (505, 509, 514)[newest] + (40 if cell.target == "tpu:v6e" else 0)
    output = {"name": "out", "shape": [2, 8, 2048, 128], "dtype": "bfloat16", "max_abs": 7.8e-3, "rms": 4.1e-4}
    program = {"name": "flash_attention.1", "kind": "custom call", "bundles": bundles, "empty_bundles": 12}
    slots = {"MXU": {"capacity": 2, "used": 188}, "VALU": {"capacity": 4, "used": 611}}
    data: dict[Check, dict[str, object]] = {
        Check.LOWER: {"stablehlo_bytes": 18_220, "mosaic_bytes": None if native else 41_984, "custom_calls": 1},
        Check.COMPILE: {
            "temp_bytes": 268_628_992 if native else 0,
            "argument_bytes": 25_165_824,
            "output_bytes": 8_388_608,
            "code_bytes": (592_384, 571_904, 540_672)[newest] if native else 39_424,
            "flops": 8.6e9,
            "seconds": 0.42,
        },
        Check.SCHEDULE: {
            "bundles": bundles,
            "spill_stores": 0,
            "spill_fills": 0,
            "programs": [{**program, "loops": [{"depth": 1, "trips": 16, "bundles": 402}], "slots": slots}],
            "complete": True,
            "notes": [],
        },
        Check.NUMERICS: {
            "mode": "tpu interpreter",
            "reference": "float64 of native",
            "outputs": [{**output, "scale": 0.11}],
        },
        Check.GRADIENTS: {
            "mode": "tpu interpreter",
            "reference": "float64 of native",
            "outputs": [{**output, "scale": 0.08}],
        },
        Check.RACES: {"mode": "tpu interpreter", "races": 0, "messages": []},
        Check.MEMORY: {
            "mode": "generic interpreter",
            "calls_per_block": 10,
            "blocks": 12,
            "sites": [],
        },
        Check.TIMING: {"mode": "device", "rounds": 20, "iterations": 5, "compile_seconds": 0.8, "platform": "cpu"},
    }
    return data[cell.check]


def _series(cell: Cell) -> dict[str, list[float]]:
    if cell.check is Check.MEMORY:
        return {"live_arrays": [4.0] * 12, "heap_bytes": [81_920_000.0 + 96 * step for step in range(12)]}
    if cell.check is Check.TIMING:
        return {"seconds": [4.1e-2 + 1e-4 * (step % 7) for step in range(20)]}
    return {}


def _verdicts(observations: tuple[Observation, ...]) -> Iterator[Verdict]:
    for seen in observations:
        cell, baseline = seen.cell, None if seen.cell.pins == BASELINE else BASELINE
        if cell.check is Check.IMPORT and seen.outcome is Outcome.FAILED:
            yield Verdict(
                cell,
                Status.REGRESSED,
                "cannot be imported under jax-0.9.2: No module named 'absl', "
                "which this release of jax no longer brings along",
                baseline=BASELINE,
                kind="ModuleNotFoundError",
                suspect=Suspect.LIBRARY,
                where="flash_attention.py:24",
            )
        elif seen.outcome is Outcome.SKIPPED:
            yield Verdict(cell, Status.SKIPPED, f"not asked: {seen.reason}")
        elif seen.outcome is Outcome.CRASHED:
            yield Verdict(
                cell, Status.INCONCLUSIVE, "the schedule could not be read: the compiler aborted while writing it"
            )
        else:
            yield _judged(cell, baseline)


def _judged(cell: Cell, baseline: str | None) -> Verdict:
    compared = baseline is not None
    if cell.check is Check.TIMING:
        ratio = Figure(0.91, 0.89, 0.93, "ratio") if cell.pins == PINS[2] else Figure(1.004, 0.99, 1.018, "ratio")
        status = Status.IMPROVED if ratio.high < 1 else Status.PASS
        said = "9 % faster than under the baseline" if status is Status.IMPROVED else "as fast as under the baseline"
        if compared:
            return Verdict(cell, status, said, baseline, figure=ratio, detectable=Amount(1.02, "ratio"))
        return Verdict(cell, Status.SKIPPED, "nothing to compare the baseline's own time with")
    if cell.check is Check.MEMORY:
        figure, least = Figure(9.6, -3, 22, "B/call"), Amount(64, "B/call")
        said = "no growth per call that could be told from noise"
        return Verdict(cell, Status.PASS, said, baseline, "heap_bytes", figure=figure, detectable=least)
    if cell.check is Check.SCHEDULE and compared:
        change = Figure.exact(1.0 + 0.008 * PINS.index(cell.pins), "ratio")
        return Verdict(cell, Status.PASS, "as many bundles as before, within 2 %", baseline, figure=change)
    return Verdict(cell, Status.PASS, f"{cell.check} works", baseline)
