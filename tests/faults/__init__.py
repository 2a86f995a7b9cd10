"""Faults that a story must catch, one line of kern at a time: faults.toml.

python -m tests.faults [WORDS...]    plants each whose name holds one of these in a copy of kern,
                                     plays its story there, and says which are not caught

A row: the `file`, the `old` text that stands there once, the `new` one, and the `story` that must
fail. Where the line of a row is gone, it gets another one of the same idea.
"""
