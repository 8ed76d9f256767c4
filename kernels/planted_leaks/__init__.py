"""Leaks of known size at known lines, for trying out what finds leaks; `clean.double` is the same work without one.

A line that leaks ends with the comment `leaks`. Call the functions as they stand: once jitted, they leak only when
they are traced.
"""
