"""The few TPU names that the kernel needs, wherever this release of JAX keeps them.

The public module also loads JAX's interpreter for TPU kernels. The interpreter needs a package that some releases
(0.9.2 is one) do not require, so there the public module cannot be imported although the compiler is complete.
Then the same names come from the module behind the public one. Known to work from JAX 0.6.2 to 0.10.2.
"""

from __future__ import annotations

try:
    from jax.experimental.pallas import tpu as _names
except ModuleNotFoundError as error:
    if (error.name or "jax").partition(".")[0] in ("jax", "jaxlib"):
        raise  # this JAX has no Pallas for TPU, or keeps it elsewhere: that must be seen
    from jax._src.pallas.mosaic import core as _names

CompilerParams = _names.CompilerParams
VMEM = _names.MemorySpace.VMEM
