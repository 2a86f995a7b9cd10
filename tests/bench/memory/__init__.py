"""How well learnings are found: a bundled set, and what is measured on it."""
