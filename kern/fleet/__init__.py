"""Many at once: kerns in worktrees of their own, and the queue that lands their commits."""
