"""Many at once, from what an ordinary run begins with: how many workers, where, and what a person
should know first.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kern import many
from kern.fleet import child, worktree
from kern.fleet.child import Workshop
from kern.fleet.crew import Show, Tell
from kern.fleet.lanes import Picture
from kern.fleet.run import Many
from kern.fleet.work import Carry
from kern.pipeline import isolation, loop, preflight, summary
from kern.pipeline.options import Options
from kern.pipeline.session import Session
from kern.spec import order
from kern.system import process

# How many workers for the jobs that were asked for and the tasks that are there, and what each is
# called with.
Hire = Callable[[Workshop, str, int], tuple[int, Carry]]


def here(shop: Workshop, jobs: str, tasks: int) -> tuple[int, Carry]:
    """Kerns on this machine."""
    return many.workers(jobs, *process.machine(), tasks), partial(child.carry, shop)


def run(
    begun: Session, options: Options, jobs: str, show: Show, tell: Tell, hire: Hire = here
) -> int:
    """The exit code."""
    site, first_loop = begun.site, loop.Loop(begun, options)
    settled = first_loop.finish()  # what is in progress in the person's own tree
    tasks = min(order.ahead(site.papers.spec()[1]), options.iterations) or 1
    shop = _shop(begun)
    count, carry = hire(shop, jobs, tasks)
    if options.delay:
        carry = child.unhurried(carry, options.delay, shop.children)
    course = Many(begun, options, shop, carry, count)
    course.crew.show, course.crew.tell = show, tell
    course.wanted, course.settled = first_loop.wanted, settled
    first = summary.begun(begun, options)
    told = many.told(str(count), options.scheduler or shop.many.scheduler)
    yours = preflight.yours(site.repo, "workers")
    first = replace(
        first,
        commands=(*shop.many.asks, *first.commands),
        lands=f"{first.lands}; {told}",
        yours=yours,
    )
    site.sink(first)
    course.crew.picture = Picture(
        tasks=min(first.iterations, first.open_tasks),
        max_cost=first.max_cost,
        expected=first.expected,
    )
    return course.run()


def settle(begun: Session, options: Options) -> None:
    """For a run that goes on by itself: finished work of an earlier one lands, half-done work is
    saved as a ref.
    """
    shop = _shop(begun)
    Many(begun, options, shop, partial(child.carry, shop), 1).settle()


def _shop(begun: Session) -> Workshop:
    """Raises UsageError where a worktree cannot get what it is to have."""
    site = begun.site
    yard, wanted = worktree.yard(site.repo, site.scope), site.caller.settings.fleet
    roomy = isolation.rooms(begun.sandbox, site.repo, site.caller.settings)
    if not roomy:
        worktree.check(site.repo, wanted)
    elif wanted.copy or wanted.setup:
        site.warn(
            "[worktree] of kern.toml is not used: in the sandbox workers see what git ignores in "
            "your tree"
        )
        wanted = replace(wanted, copy=(), setup="")
    return Workshop(yard, wanted, yard.repo, roomy)
