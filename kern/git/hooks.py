"""The names of the hooks that a commit has, in their order, and of the one after it."""

PRE_COMMIT, PREPARE, MESSAGE = "pre-commit", "prepare-commit-msg", "commit-msg"
NAMES = (PRE_COMMIT, PREPARE, MESSAGE)
POST_COMMIT = "post-commit"
