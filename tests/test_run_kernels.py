"""Watching kernels that have nothing in common with ours: a table in watchdog.toml is enough."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from tests.projects import NEW, ROOT, Finished, Project, Results
from watchdog.model import HOST, Check, Outcome, Status, Suspect

pytestmark = pytest.mark.real

CONFIG = f"""
[watchdog]
scenarios = ["steady"]
memory_budget = "1s"
baseline = "to-day.1"

[pins."to-day.1"]
requirements = ["{NEW}"]

[[kernel]]
name = "scale-and.sum"
custom = "rowtools.kernels:Fast.scale_and_sum"
native = "rowtools.kernels:plain"
requirements = ["./row project"]
inputs = "rowtools.making:rows"
reference = "rowtools.making:exactly"
static = ["keep"]

[[kernel.case]]
name = "with-rest.1"
kwargs = {{ keep = true, scale = 0.5 }}
seed = 3

[[kernel]]
name = "softmax_2"
custom = "rows.on_tpu:softmax"
native = "jax.nn:softmax"
also = {{ foreign = "rows.foreign:log_softmax_of" }}
layout = {{ foreign = "rows.foreign:adapt" }}
path = "my kernels"

[[kernel.case]]
name = "small"
args = ["f32[32,128] normal(0, 5)"]

[[kernel]]
name = "lookup"
custom = "table:lookup"
native = "table:plain"
path = "my kernels"
differentiate = []

[[kernel.case]]
name = "ids"
args = ["i32[16,128] arange", "i32[64] randint(0, 16)"]

[[kernel]]
name = "hoarder"
custom = "hoarding:double"
native = "hoarding:plain"
path = "my kernels"
differentiate = []

[[kernel.case]]
name = "kept"
args = ["f32[64,128]"]
"""

# Each block of rows is scaled on a TPU core; the sums are left to XLA. Two results, by name.
ROWTOOLS_KERNELS = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _scale(scale, x, out):
    out[...] = x[...] * scale[0, 0]


class Fast:
    @staticmethod
    def scale_and_sum(x, weights, *, keep, scale):
        rows, columns = x.shape
        scaled = pl.pallas_call(
            _scale,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(rows // 8,),
            in_specs=[pl.BlockSpec((1, 1), lambda i: (0, 0)), pl.BlockSpec((8, columns), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((8, columns), lambda i: (i, 0)),
        )(jnp.full((1, 1), scale, x.dtype), x)
        return _results(scaled, weights, keep)


def plain(x, weights, *, keep, scale):
    return _results(x * scale, weights, keep)


def _results(scaled, weights, keep):
    results = {"sum": (scaled * weights).sum(axis=1)}
    return {**results, "scaled": scaled} if keep else results
"""

ROWTOOLS_MAKING = """
import numpy as np


def rows(seed):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(16, 128)).astype("float32"), draw.uniform(size=(128,)).astype("float32")


def exactly(x, weights, *, keep, scale):
    scaled = x * scale
    return {"sum": scaled @ weights, "scaled": scaled} if keep else {"sum": scaled @ weights}
"""

ON_TPU = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _softmax(x, out):
    shifted = jnp.exp(x[...] - x[...].max(axis=1, keepdims=True))
    out[...] = shifted / shifted.sum(axis=1, keepdims=True)


@jax.custom_vjp
def softmax(x):
    rows, columns = x.shape
    block = pl.BlockSpec((8, columns), lambda i: (i, 0))
    return pl.pallas_call(
        _softmax,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows // 8,),
        in_specs=[block],
        out_specs=block,
    )(x)


def _forward(x):
    result = softmax(x)
    return result, result


def _backward(result, given):
    return (result * (given - (given * result).sum(axis=1, keepdims=True)),)


softmax.defvjp(_forward, _backward)
"""

FOREIGN = """
import functools

import jax.numpy as jnp


def log_softmax_of(*, logits):
    return logits - jnp.log(jnp.exp(logits).sum(axis=1, keepdims=True))


def adapt(function):
    return lambda x: jnp.exp(function(logits=x))
"""

TABLE = """
import jax.numpy as jnp


def lookup(table, ids):
    return jnp.take(table, ids, axis=0), ids


def plain(table, ids):
    return table[ids], ids
"""

HOARDING = """
import jax
import numpy as np

_seen = []


def _note(value):
    _seen.append(jax.device_put(np.array(value)))  # the leak


def double(x):
    jax.debug.callback(_note, x * 2)
    return x * 2


def plain(x):
    return x + x
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("a user's folder"))
    project.write("watchdog.toml", CONFIG)
    modules = {
        "rowtools/__init__.py": "",
        "rowtools/kernels.py": ROWTOOLS_KERNELS,
        "rowtools/making.py": ROWTOOLS_MAKING,
    }
    project.package("row project", "Odd.Row-Kit", modules)
    project.write("my kernels/rows/__init__.py", "")
    project.write("my kernels/rows/on_tpu.py", ON_TPU)
    project.write("my kernels/rows/foreign.py", FOREIGN)
    project.write("my kernels/table.py", TABLE)
    project.write("my kernels/hoarding.py", HOARDING)
    return project


@pytest.fixture(scope="module")
def finished(project: Project) -> Finished:
    return project.watchdog("run", "--json", "run.json")


@pytest.fixture(scope="module")
def results(project: Project, finished: Finished) -> Results:
    assert finished.code == 1, finished.stderr  # the hoarder is found
    return project.results()


def line_of(project: Project, place: str, mark: str) -> int:
    lines = (project.folder / place).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if mark in line)


def test_only_the_leak_is_found(results: Results) -> None:
    """Odd names, foreign signatures, trees of results and integers are watched without a false alarm."""
    statuses = Counter(verdict.status for verdict in results.verdicts)
    assert statuses.keys() == {Status.PASS, Status.SKIPPED, Status.REGRESSED}
    assert [verdict.cell.kernel for verdict in results.verdicts if verdict.status is Status.REGRESSED] == ["hoarder"]
    assert results.missing == 0


def test_a_leak_is_named_with_its_line_and_its_bytes(results: Results, project: Project) -> None:
    """An array of 64 x 128 floats is kept in each call, by the kernel, allocated in the line that keeps it."""
    leak = results.verdict(Check.MEMORY, kernel="hoarder", implementation="custom")
    assert (leak.status, leak.kind, leak.suspect) == (Status.REGRESSED, "leak", Suspect.KERNEL)
    assert leak.figure is not None
    assert (leak.figure.value, leak.figure.unit) == (64 * 128 * 4, "B/call")
    assert leak.where == f"hoarding.py:{line_of(project, 'my kernels/hoarding.py', 'the leak')}"
    assert leak.where in leak.summary


def test_a_kernel_of_a_local_project_is_installed_with_it(results: Results, project: Project) -> None:
    """The project's name is not its module's; it is in the environment of its own kernel alone."""
    document = json.loads((project.folder / "run.json").read_text(encoding="utf-8"))
    packages = [environment["packages"] for environment in document["environments"]]
    assert sorted("odd-row-kit" in each for each in packages) == [False, True]
    for implementation in ("custom", "native"):
        imported = results.observation(Check.IMPORT, kernel="scale-and.sum", implementation=implementation)
        assert imported.data["module"] == "rowtools.kernels"


def test_results_are_compared_by_name_with_the_given_truth(results: Results) -> None:
    """Each array of a tree has its own error, against the reference that the user wrote."""
    for implementation in ("custom", "native"):
        seen = results.observation(Check.NUMERICS, kernel="scale-and.sum", implementation=implementation)
        assert seen.data["reference"] == "rowtools.making:exactly in float64"
        assert [output["name"] for output in seen.data["outputs"]] == ["scaled", "sum"]
        assert all(0 <= output["max_abs"] < 1e-4 < output["scale"] for output in seen.data["outputs"])


def test_a_tpu_kernel_is_interpreted_and_never_timed_here(results: Results) -> None:
    """Its numbers, gradients and races are observed by interpretation; its time is skipped with the reason."""
    subject = {"kernel": "softmax_2", "implementation": "custom"}
    for check in (Check.NUMERICS, Check.GRADIENTS, Check.RACES):
        assert results.observation(check, **subject).data["mode"] == "tpu interpreter"
    for check in (Check.LOWER, Check.COMPILE, Check.TIMING):
        observation = results.observation(check, **subject)
        assert observation.outcome is Outcome.SKIPPED
        assert "Pallas TPU kernel" in (observation.reason or "")


def test_gradients_of_a_hand_written_backward_pass_are_checked(results: Results) -> None:
    """One entry for each argument that has a gradient."""
    seen = results.observation(Check.GRADIENTS, kernel="softmax_2", implementation="custom")
    assert [output["shape"] for output in seen.data["outputs"]] == [[32, 128]]
    assert 0 < seen.data["outputs"][0]["max_abs"] < 1e-5


def test_a_kernel_without_a_gradient_is_told_how_to_say_so(results: Results) -> None:
    """Pallas has no gradient of its own: the reason names the key."""
    reason = results.observation(Check.GRADIENTS, kernel="scale-and.sum", implementation="custom").reason
    assert "differentiate = []" in (reason or "")


def test_a_further_implementation_is_adapted_and_watched_like_the_others(results: Results) -> None:
    """One under `also`, of a foreign signature, is asked every question through its layout."""
    asked = {one.cell.check for one in results.observations if one.cell.implementation == "foreign"}
    assert asked == set(Check) - {Check.INSTALL, Check.SCHEDULE}
    assert results.verdict(Check.NUMERICS, implementation="foreign").status is Status.PASS


def test_integers_are_compared_exactly_and_not_differentiated(results: Results) -> None:
    """Random integers stay within what was asked, and a tuple's results are known by their places."""
    seen = results.observation(Check.NUMERICS, kernel="lookup", implementation="custom")
    assert [(output["name"], output["dtype"], output["max_abs"]) for output in seen.data["outputs"]] == [
        ("0", "int32", 0.0),
        ("1", "int32", 0.0),
    ]
    gradients = results.observation(Check.GRADIENTS, kernel="lookup", implementation="custom")
    assert gradients.outcome is Outcome.SKIPPED


def test_what_runs_here_is_timed(results: Results) -> None:
    """Each implementation that this machine can run has a series of times, in seconds."""
    for kernel, implementation in (("softmax_2", "native"), ("softmax_2", "foreign"), ("lookup", "custom")):
        seen = results.observation(Check.TIMING, kernel=kernel, implementation=implementation)
        assert len(seen.series["seconds"]) == seen.data["rounds"] >= 5
        assert min(seen.series["seconds"]) > 0


def test_the_document_keeps_to_its_schema(results: Results, project: Project, finished: Finished) -> None:
    """docs/run.schema.json describes what `--json` writes, odd names and empty baseline included."""
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text(encoding="utf-8"))
    document = json.loads((project.folder / "run.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert (document["run"], document["exit_code"]) == (results.run, finished.code)
    assert len(document["verdicts"]) == len(results.verdicts)
    assert {verdict["target"] for verdict in document["verdicts"]} == {None, HOST}


def test_every_kernel_has_a_page_that_can_be_reached(finished: Finished, project: Project) -> None:
    """Names with dots and dashes make good files, and the first page leads to each."""
    report = project.folder / ".watchdog" / "report"
    assert f"Report: {report / 'index.html'}" in finished.stderr
    index = (report / "index.html").read_text(encoding="utf-8")
    pages = sorted(path.name for path in Path(report / "kernels").iterdir())
    assert pages == ["hoarder.html", "lookup.html", "scale-and.sum.html", "softmax_2.html"]
    assert all(f'href="kernels/{page}' in index for page in pages)


def test_nothing_is_left_in_the_users_folder(finished: Finished, project: Project) -> None:
    """What the program wrote is in .watchdog and where it was told to; Python's own caches are not ours to count."""
    assert finished.code == 1
    assert {path.name for path in project.folder.iterdir()} == {
        ".watchdog",
        "watchdog.toml",
        "run.json",
        "row project",
        "my kernels",
    }
