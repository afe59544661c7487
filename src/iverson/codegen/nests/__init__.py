"""The loop-nest IR: tasks, loops, integer bounds, checks of accesses, cost."""
