"""Names that jax took away or brought: told by the table that its releases made, and by nothing else."""

from __future__ import annotations

import pytest

from watchdog.judges import faults, names
from watchdog.judges.moved import argument_sentence, missing_path, name_sentence
from watchdog.judges.names import History, Names
from watchdog.model import Cell, Check, Environment, Fault, Observation, Outcome, Package

TPU = "jax.experimental.pallas.tpu"


def environment(jax: str) -> Environment:
    return Environment("p", (), "sha256:p", "", "3.11.7", (Package("jax", jax),))


def name(message: str, jax: str) -> str | None:
    return name_sentence(Fault("AttributeError", message), environment(jax))


def argument(message: str, jax: str) -> str | None:
    return argument_sentence(Fault("TypeError", message), environment(jax))


def test_the_table_is_small_and_knows_the_promised_releases() -> None:
    """Less than 300 KB, and every release that the program promises is in it."""
    assert names.DATA.stat().st_size < 300_000
    promised = {"0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.11.0", "0.12.0"}
    assert promised <= set(names.known().releases)


@pytest.mark.parametrize(
    ("message", "jax", "sentence"),
    [
        (
            f"module '{TPU}' has no attribute 'TPUCompilerParams'",
            "0.8.3",
            (
                "pltpu.TPUCompilerParams is not in jax 0.8.3: removed in 0.7.2 (deprecated from 0.6.2); "
                "today's name is pltpu.CompilerParams"
            ),
        ),
        (
            f"module '{TPU}' has no attribute 'CompilerParams'",
            "0.5.3",
            "pltpu.CompilerParams is not in jax 0.5.3: added in 0.6.2; the name there is pltpu.TPUCompilerParams",
        ),
        (
            "module 'jax.experimental.pallas' has no attribute 'load'",
            "0.9.2",
            (
                "pl.load is not in jax 0.9.2: removed in 0.9.0 (deprecated from 0.7.1); jax says: pl.load is deprecated, "
                "use ``ref[idx]`` or a backend-specific loading API instead"
            ),
        ),
        (
            f"module '{TPU}' has no attribute 'repeat'",
            "0.10.2",
            "pltpu.repeat is not in jax 0.10.2: removed in 0.10.2 (deprecated from 0.9.1); jax says to use jnp.tile",
        ),
        (
            "module 'jax.core' has no attribute 'Primitive'",
            "0.10.2",
            (
                "jax.core.Primitive is not in jax 0.10.2: removed in 0.6.0 (deprecated from 0.4.38); "
                "today's name is jax.extend.core.Primitive"
            ),
        ),
        (
            "jnp.round_ was deprecated in JAX 0.4.38; use jnp.round instead.",
            "0.5.3",
            "jnp.round_ is not in jax 0.5.3: removed in 0.4.38 (deprecated from 0.4.33); today's name is jnp.round",
        ),
        (
            "No module named 'jax.experimental.maps'",
            "0.10.2",
            "jax.experimental.maps is not in jax 0.10.2: removed in 0.4.31",
        ),
        (
            "cannot import name 'PositionalSharding' from 'jax.sharding' (/srv/env/jax/sharding.py)",
            "0.10.2",
            (
                "jax.sharding.PositionalSharding is not in jax 0.10.2: removed in 0.7.0 (deprecated from 0.6.0); "
                "jax says to use jax.NamedSharding"
            ),
        ),
        (
            "type object 'MemorySpace' has no attribute 'ANY'",
            "0.8.3",
            "pltpu.MemorySpace.ANY is not in jax 0.8.3: removed in 0.8.2",
        ),
    ],
)
def test_names_that_a_release_lacks(message: str, jax: str, sentence: str) -> None:
    """Which release took it away or brought it, and its present name: as real releases have them."""
    assert name(message, jax) == sentence


def test_a_name_that_never_was() -> None:
    """It is said that no known release has it; a similar name is called similar, never the present one."""
    told = str(name(f"module '{TPU}' has no attribute 'CompilerParms'", "0.10.2"))
    assert told.startswith("pltpu.CompilerParms is not in jax 0.10.2: no release from 0.4.20 to ")
    assert told.endswith("has it; a similar name there is pltpu.CompilerParams")
    assert "similar" not in str(name(f"module '{TPU}' has no attribute 'flash_everything'", "0.10.2"))


@pytest.mark.parametrize(
    "message",
    [
        "module 'numpy' has no attribute 'bool'",
        "name 'bloc' is not defined",
        "'Mine' object has no attribute 'scale'",
        "module 'jaxtyping' has no attribute 'Float'",
        f"module '{TPU}' has no attribute 'CompilerParams'",  # 0.10.2 has it: then something else is wrong
    ],
)
def test_nothing_is_said_of_other_names(message: str) -> None:
    """Of a name that is not jax's, or that this release has, the table knows nothing."""
    assert name(message, "0.10.2") is None


def test_nothing_is_said_without_a_release() -> None:
    """Without jax among the packages nobody can say which release lacks it."""
    fault = Fault("AttributeError", f"module '{TPU}' has no attribute 'TPUCompilerParams'")
    assert name_sentence(fault, None) is None
    assert name_sentence(fault, Environment("p", (), "", "", "", (Package("numpy", "2"),))) is None


@pytest.mark.parametrize(
    ("message", "jax", "sentence"),
    [
        (
            "BlockSpec.__init__() got an unexpected keyword argument 'indexing_mode'",
            "0.9.2",
            "pl.BlockSpec has no argument indexing_mode in jax 0.9.2: removed in 0.7.1",
        ),
        (
            "pallas_call() got an unexpected keyword argument 'metadata'",
            "0.5.3",
            "pl.pallas_call has no argument metadata in jax 0.5.3: added in 0.7.0",
        ),
    ],
)
def test_arguments_that_a_release_lacks(message: str, jax: str, sentence: str) -> None:
    """The callable as kernels spell it, and the release that took the argument away or brought it."""
    assert argument(message, jax) == sentence


def test_an_argument_that_never_was() -> None:
    """No known release has it; the similar one is called similar."""
    told = str(argument("CompilerParams.__init__() got an unexpected keyword argument 'vmem_limit'", "0.10.2"))
    assert told.startswith("pltpu.CompilerParams has no argument vmem_limit in jax 0.10.2: no release from 0.4.20 to ")
    assert told.endswith("has it; a similar one is vmem_limit_bytes")


def test_an_argument_that_the_older_function_has() -> None:
    """jax.shard_map never had check_rep: that is the argument of the function of that name in jax.experimental."""
    told = str(argument("shard_map() got an unexpected keyword argument 'check_rep'", "0.9.2"))
    assert told.startswith("jax.shard_map has no argument check_rep in jax 0.9.2: no release")
    assert "jax.experimental.shard_map.shard_map has it" in told


@pytest.mark.parametrize(
    "message",
    ["attention() got an unexpected keyword argument 'block_q'", "f() missing 1 required positional argument: 'x'"],
)
def test_nothing_is_said_of_other_callables(message: str) -> None:
    """A user's own function is no matter of jax's releases."""
    assert argument(message, "0.9.2") is None


def test_the_verdicts_sentence_tells_it() -> None:
    """What a judge reads from an observation is this sentence, with the name as what is missing."""
    fault = Fault("AttributeError", f"module '{TPU}' has no attribute 'TPUCompilerParams'", missing="TPUCompilerParams")
    cell = Cell("k", "custom", "small", "p", "tpu:v5e", Check.LOWER)
    reading = faults.read(Observation(cell, Outcome.FAILED, fault=fault), environment("0.8.3"))
    assert (reading.kind, reading.missing) == ("missing name", "TPUCompilerParams")
    assert "today's name is pltpu.CompilerParams" in reading.what


TABLE = Names(
    releases=("1.0", "1.1", "1.2", "2.0"),
    unread=("m.closed",),
    names={
        "m": ((0, 3),),
        "m.closed": ((0, 3),),
        "m.a": ((0, 0),),
        "m.b": ((1, 1),),
        "m.c": ((2, 3),),
        "m.late": ((3, 3),),
        "m.back": ((0, 0), (2, 3)),
        "m.steady": ((0, 3),),
    },
    parameters={"f@m.f": {"x": ((0, 3),), "y": ((0, 1),)}},
    deprecated={"m.a": 0, "m.b": 3},
    now={"m.a": ("m.b",), "m.b": ("m.c",)},
    use={"m.late": ("m.steady",)},
    said={},
)


def test_renames_are_followed_to_the_release_at_hand() -> None:
    """a became b became c: each release is told the name that it has, older ones too."""
    assert [TABLE.called_in("m.a", release) for release in ("1.1", "1.2", "2.0")] == ["m.b", "m.c", "m.c"]
    assert TABLE.called_in("m.c", "1.1") == "m.b"
    assert TABLE.called_in("m.late", "1.0") is None
    assert TABLE.instead_in("m.late", "1.0") == "m.steady"


def test_renames_in_a_circle_end() -> None:
    """A name that went away, came back as another and went away again leads nowhere, and to no endless search."""
    circle = Names(
        ("1", "2"), (), {"m.a": ((0, 0),), "m.b": ((0, 0),)}, {}, {}, {"m.a": ("m.b",), "m.b": ("m.a",)}, {}, {}
    )
    assert circle.called_in("m.a", "2") is None


@pytest.mark.parametrize(
    ("asked", "release", "history"),
    [
        ("m.a", "1.0", History(has=True)),
        ("m.a", "1.1", History(has=False, removed="1.1", deprecated="1.0")),
        ("m.b", "2.0", History(has=False, removed="1.2")),  # what was called deprecated after it went is no warning
        ("m.late", "1.2", History(has=False, added="2.0")),
        ("m.back", "1.1", History(has=False, removed="1.1")),
        ("m.back", "1.2", History(has=True)),
        ("m.steady", "7.1", History(has=True)),  # a release later than the table: as its last
        ("m.a", "1.0.9", History(has=True)),  # a release between: as the one before
        ("m.a", "nightly", History(has=False, removed="1.1", deprecated="1.0")),
        ("m.nobody", "1.0", None),
    ],
)
def test_when_a_name_was_there(asked: str, release: str, history: History | None) -> None:
    """Seen from one release, also from one that the table does not know."""
    assert TABLE.history(asked, release) == history


@pytest.mark.parametrize(
    ("asked", "known"),
    [("m.nobody", True), ("m.closed.x", False), ("m._private", False), ("m.unheard.x", False), ("numpy.bool", False)],
)
def test_what_the_table_would_know(asked: str, known: bool) -> None:
    """That no release has a name is said only of public names of modules that were read."""
    assert TABLE.would_know(asked) is known


def test_an_unknown_attribute_of_an_array() -> None:
    """Tracers and arrays are both jax.Array to the table."""
    for message in (
        "DynamicJaxprTracer has no attribute device_buffer",
        "'ArrayImpl' object has no attribute 'device_buffer'",
    ):
        assert missing_path(Fault("AttributeError", message)) == "jax.Array.device_buffer"


def test_short_names_can_be_spelled_out() -> None:
    """What kernels write and what the table holds are each other's."""
    for spelled, whole in (("pltpu.CompilerParams", f"{TPU}.CompilerParams"), ("pl.ds", "jax.experimental.pallas.ds")):
        assert names.full(spelled) == whole
        assert names.short(whole) == spelled
    assert names.short("jax.nn.relu") == "jax.nn.relu"
