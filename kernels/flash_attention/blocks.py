"""How many queries and keys the kernel holds in fast memory at once."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 128  # width of a TPU vector register: every block is a multiple of it
_SIZES = (512, 256, 128)


@dataclass(frozen=True)
class BlockSizes:
    """Lengths of one block of queries and one block of keys; ValueError unless both are multiples of 128."""

    query: int
    key: int

    def __post_init__(self) -> None:
        for name, size in (("query", self.query), ("key", self.key)):
            if size < LANES or size % LANES:
                msg = f"the {name} block has length {size}; it must be a positive multiple of {LANES}"
                raise ValueError(msg)

    @classmethod
    def choose(cls, *, query_length: int, key_length: int, head_dim: int) -> BlockSizes:
        """The largest blocks that fit fast memory and pad no further than a multiple of 128."""
        return cls(query=_size(query_length, head_dim), key=_size(key_length, head_dim))


def round_up(length: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that holds `length`."""
    return -(-length // multiple) * multiple


def _size(length: int, head_dim: int) -> int:
    padded = round_up(length, LANES)
    return next(size for size in _SIZES if size == LANES or (size <= _largest(head_dim) and padded % size == 0))


def _largest(head_dim: int) -> int:
    # Wide heads make each row of a block longer. The steps keep the f32 backward pass, the larger of the two,
    # within the 16 MiB of fast memory that the v5e compiler grants a kernel by default.
    if head_dim <= 256:  # noqa: PLR2004 - the step described above
        return 512
    return 256 if head_dim <= 512 else LANES  # noqa: PLR2004 - the step described above
