"""What earlier tasks taught: entries, their worth, and which of them a task is told."""
