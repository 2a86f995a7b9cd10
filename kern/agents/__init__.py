"""The agent CLIs that kern can drive: one module each, all of one shape.

`COMMAND`, `argv(stage, model)`, `environment(stage)`, `read(objects, result)` and `fault(reply,
ended)`.
"""
