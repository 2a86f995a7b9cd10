"""Words that a person may still type, and what does that now; a line is gone again in a year."""

GONE = {
    "completion": "kern --install-completion",
    "pause": "kern stop, then run kern again: it goes on from there",
    "recall": "kern search WORDS",
    "reflect": "kern learn --tidy",
    "resume": "kern, which goes on from where it was",
    "--quiet": "kern 10 > FILE, then kern report: what the run said at its end",
    "skip": "kern defer TASK",
    "fleet": "kern status, which shows what each worker does",
    "graph": "kern status, which says of each task what it waits for",
}
