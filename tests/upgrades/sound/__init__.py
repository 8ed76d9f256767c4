"""Six sound kernels, in spellings that every release since jax 0.5.3 knows: whatever is said against them is invented."""
