"""The options and arguments that several commands share, as typer has them."""

from typing import Annotated

import typer

from kern import models

DryRun = Annotated[
    bool, typer.Option("-n", "--dry-run", help="Show what would happen; write nothing.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Debug lines; with -n the prompts.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="End at a usage limit or an outage instead of waiting.")
]
NoSign = Annotated[bool, typer.Option("--no-sign", help="Leave the commits of this run unsigned.")]
MaxCost = Annotated[
    str, typer.Option(metavar="DOLLARS", help="End the run when this much is spent.")
]
MaxMinutes = Annotated[
    str, typer.Option(metavar="TIME", help="Begin no stage after this: 90 (minutes), 2h, 1h30m.")
]
Sandbox = Annotated[str, typer.Option(metavar="MODE", help="auto, bwrap or off: kern help safety.")]
Model = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Of research, implement, planner; or ROLE=NAME, say commit=haiku."
    ),
]
Effort = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help=f"Of the same three: {', '.join(models.EFFORTS)}."),
]
AgentName = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Who runs all stages; or ROLE=NAME."),
]
NoFallback = Annotated[
    bool, typer.Option("--no-fallback", help="No other agent stands in for one at its limit.")
]
UntilDone = Annotated[
    bool, typer.Option("--until-done", help="Then review, add what is missing, go on.")
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin nothing after this time of day: 07:00.")
]
Branch = Annotated[
    str | None, typer.Option(metavar="NAME", help="Begin this branch here; its commits go there.")
]
Jobs = Annotated[
    str | None,
    typer.Option("-j", "--jobs", metavar="N", help="So many tasks at once, in worktrees; auto."),
]
Only = Annotated[
    str | None, typer.Option(metavar="TASK", help="Only this: its number, or part of its text.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the summary and errors.")]
Scheduler = Annotated[
    str, typer.Option(metavar="WHERE", help="A dask cluster: host:8786, or its scheduler file.")
]
Trusted = Annotated[bool, typer.Option("--trust", help="Run the repository's commands this time.")]
Bare = Annotated[
    bool,
    typer.Option("--no-project-settings", help="Without the repository's gates, hooks, prompts."),
]
Task = Annotated[str, typer.Argument(metavar="TASK", help="Its number, or a part of its text.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
