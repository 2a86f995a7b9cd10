"""Many at once, from what an ordinary run begins with: how many workers, where, and what a person
should know first.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kern import many
from kern.fleet import child, outfit, worktrees
from kern.fleet.child import Workshop
from kern.fleet.lanes import Picture
from kern.fleet.loop import Many, Show, Tell
from kern.fleet.work import Carry
from kern.pipeline import facts, isolation, loop, preflight, summary
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
    wanted = None
    at = facts.look(begun.site)
    if options.task:
        wanted = at.wanted(begun.site.papers.spec()[1], options.task)
    settled = loop.Loop(begun, options).finish()  # what is in progress in the person's own tree
    _, parsed = begun.site.papers.spec()
    tasks = min(order.ahead(parsed), options.iterations) or 1
    shop = shop_of(begun)
    count, carry = hire(shop, jobs, tasks)
    if options.delay:
        carry = child.unhurried(carry, options.delay, shop.children)
    course = Many(begun, options, shop, carry, count)
    course.show, course.tell, course.wanted, course.settled = show, tell, wanted, settled
    first = summary.begun(begun, options)
    told = many.told(str(count), options.scheduler or shop.many.scheduler)
    first = replace(
        first,
        commands=(*shop.many.asks, *first.commands),
        lands=f"{first.lands}; {told}",
        yours=preflight.yours(begun.site.repo, "workers"),
    )
    begun.site.sink(first)
    course.picture = Picture(
        tasks=min(first.iterations, first.open_tasks),
        max_cost=first.max_cost,
        expected=first.expected,
    )
    return course.run()


def shop_of(begun: Session) -> Workshop:
    """Raises UsageError where a worktree cannot get what it is to have."""
    site = begun.site
    yard, many = worktrees.yard(site.repo, site.scope), site.caller.settings.fleet
    shown = isolation.shows(begun.sandbox, site.repo, site.caller.programs.values())
    outfit.check(site.repo, many, shown=shown)
    return Workshop(yard, many, yard.repo, shown)


def settle(begun: Session, options: Options) -> None:
    """For a run that goes on by itself: finished work of an earlier one lands, half-done work is
    saved as a ref.
    """
    shop = shop_of(begun)
    Many(begun, options, shop, partial(child.carry, shop), 1).settle()
