"""The gate: does a change of dependencies break, slow, bloat, leak or falsify a watched kernel, and which package did it.

`sides` reads what is compared and `difference` says what changed; `sampling` measures time as an experiment; `answer`
says what the bump did and what was there before; `blame` and `bisect` find the package and the release; `report` holds
the values that every output is made from.
"""
