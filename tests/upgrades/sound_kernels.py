"""The six sound kernels and their small cases."""

from __future__ import annotations

from pathlib import Path

from tests.upgrades.expectations import Watched

_HERE = str(Path(__file__).parent)


def _sound(name: str, *args: str, differentiate: tuple[int, ...] = ()) -> Watched:
    return Watched(name, f"sound.{name}:custom", f"sound.{name}:native", args, _HERE, differentiate=differentiate)


SOUND = (
    _sound("flash", "f32[2,256,128]", "f32[2,256,128]", "f32[2,256,128]"),
    _sound("rmsnorm", "f32[256,512]", "f32[1,512]", differentiate=(0, 1)),
    _sound("matmul", "f32[256,512]", "f32[512,256]"),
    _sound("gather", "f32[16,8,128]", "i32[12] randint(0, 16)"),
    _sound("softmax", "f32[256,512]"),
    _sound("copies", "f32[256,256]"),
)
