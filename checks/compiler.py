"""The TPU compiler on a machine without a TPU: everything that one has to know to ask it, in one place.

Each quirk names the releases it was seen in. None of them may ever appear as a fault of the kernel.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.metadata
import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from . import dump
from .faults import NotHereError

# Topologies that every libtpu since 0.0.11 knows by these names (tpu7x from 0.0.32.1 on).
TOPOLOGIES = {
    "v2": "v2:2x2",
    "v3": "v3:2x2",
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}

# Bytes in which a generation's listings count transfers, by the windows whose size is told beside them (jax 0.5.3 to 0.12).
GRANULES = {"v2": 1024, "v3": 1024, "v4": 512, "v5e": 32, "v5p": 32, "v6e": 32, "tpu7x": 32}

ANY_TPU = "tpu:v5e"  # for questions that are the same of every generation

_COMPILER_ALONE = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # without it jax 0.5.3 to 0.6.1 wait for a metadata server that is not there
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",  # the next three keep it quiet and do not limit the topology
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a second process dies on a lock file
    "TPU_LOG_DIR": "disabled",  # else logs pile up in the temporary folder
}


def environment(platform: str) -> dict[str, str]:
    """Environment variables for a process that computes on `platform`, set before jax is imported."""
    quiet = {"JAX_TRACEBACK_FILTERING": "off", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {**quiet, **_COMPILER_ALONE} if platform == "cpu" else quiet


@functools.cache
def device(generation: str) -> Any:
    """A device of a TPU generation, described by libtpu alone.

    Raises NotHereError when this libtpu does not know the generation or is not installed.
    """
    from jax.experimental import topologies

    try:
        libtpu = importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        message = "the pins hold no libtpu, so nothing can be compiled for a TPU; ask for jax[tpu]"
        raise NotHereError(message) from None
    try:
        topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[generation])
    except Exception as error:
        message = f"libtpu {libtpu} cannot describe a {generation}: {_first_line(error)}"
        raise NotHereError(message) from error
    _mend_library_date(topology.devices[0])
    return topology.devices[0]


def _mend_library_date(tpu: Any) -> None:
    """jax up to 0.7.1 asks the CPU backend how old libtpu is, and then refuses every kernel as too new for it.

    The topology's own client knows the date; the modules that imported the question get one that asks there.
    """
    built = re.search(r"\((\d+)\)", tpu.client.platform_version)
    _import_if_present("jax.experimental.pallas.tpu")  # first: jax 0.6.2 cannot import the next two by themselves
    for name in ("jax._src.tpu_custom_call", "jax._src.pallas.mosaic.lowering"):
        module = sys.modules.get(name) or _import_if_present(name)
        question = getattr(module, "is_cloud_tpu_older_than", None)
        if built and question and len(inspect.signature(question).parameters) == _ASKS_THE_DEFAULT_BACKEND:
            module.is_cloud_tpu_older_than = functools.partial(_older_than, int(built.group(1)))  # type: ignore[union-attr]  # it has the question


_ASKS_THE_DEFAULT_BACKEND = 3  # year, month, day; later releases take the backend as a fourth


def _older_than(built: int, year: int, month: int, day: int) -> bool:
    return datetime.datetime.fromtimestamp(built, datetime.timezone.utc).date() < datetime.date(year, month, day)


def _import_if_present(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except (
        ImportError
    ):  # a release that keeps its questions elsewhere, or the pins' own fault: the kernel's import tells
        return None


@contextmanager
def on_this_machine() -> Iterator[None]:
    """Computes on this machine's own device, inside `compiling_for` too: a TPU that is only described runs nothing."""
    import jax

    with jax.default_device(jax.local_devices()[0]):
        yield


@contextmanager
def compiling_for(target: str) -> Iterator[Any]:
    """The sharding that places arrays on the target, with the target as default device.

    Without the default device `get_tpu_info`, `emit_pipeline` and one-dimensional blocks fail falsely.
    """
    import jax
    from jax.sharding import SingleDeviceSharding

    chosen = device(target.removeprefix("tpu:")) if target.startswith("tpu:") else jax.devices()[0]
    with jax.default_device(chosen):
        yield SingleDeviceSharding(chosen)


def platform_of(target: str) -> str:
    """The platform that jax lowers for."""
    import jax

    return "tpu" if target.startswith("tpu:") else str(jax.devices()[0].platform)


def wants_a_running_device(error: BaseException) -> bool:
    """Whether tracing failed because it computes something at once (`ensure_compile_time_eval`).

    The default device would have to run it, and a TPU that is only described runs nothing. All releases up to 0.12.
    """
    return "Executable' object has no attribute 'local_devices'" in str(error)


DUMP = "dump"  # the folder, inside a process's scratch folder, that holds one program's dump at a time


def dump_to(folder: Path) -> None:
    """Have the compiler write its final schedules to `folder`. libtpu reads the variable once, when it is loaded.

    Without the expression a flash kernel writes 200 MB and compiles 10 to 40 times slower. Without the filter libtpu
    0.0.32.1 aborts after the first program, for want of a template of its report on memory that its wheel lacks.
    """
    os.environ["LIBTPU_INIT_ARGS"] = " ".join(
        (
            f"--xla_jf_dump_to={folder}",
            "--xla_jf_dump_llo_text=true",
            f"--xla_jf_dump_llo_pass_label_regex=({'|'.join(dump.LABELS)})",
            "--xla_jf_dump_category_filter=codegen,program",
        )
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
