"""What becomes of a task when kern is killed, interrupted or failed at any of its writes, on each
way that a task can go:  python -m tests.matrix [STORY...]

Each story is told once by a kern that stops at each write. There it is forked, on a copy of
everything, once for each thing that can happen: killed after the write or before it, interrupted,
ended, the write refused because the disk is full (and stays so) or broken; and where an agent is
at work, that agent does its work and then sends kern the signal. Then kern is run again until the
story is over, once for each different state that was left. Bad is whatever an undisturbed telling
has not: another history, tree, SPEC.md, LEARNINGS.md, note or ref; a stage asked again whose
answer was saved; a file of the person's touched; a process left; at any moment a `[x]` before its
commit or a note before its ref; an end without a clear message.

The exit code is 1 where anything was bad.
"""
