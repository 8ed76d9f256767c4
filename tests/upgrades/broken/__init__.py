"""Broken kernels: each has one fault, known beforehand; broken_kernels.py says where it must be found."""
