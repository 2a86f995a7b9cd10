"""The agent CLIs that kern can drive: one module each, all of one shape.

`COMMAND`, `INSTALL`, `OLDEST`, `TOOLS`, `GUIDANCE`, `GUIDANCE_LIMIT`, `version(text)`,
`shown(stage)`, `argv(stage, model, guidance)`, `environment(stage)`, `read(objects, stage)` and
`fault(reply, ended)`.
"""
