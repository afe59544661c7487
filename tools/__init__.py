"""Programs that write parts of the project from its tables."""
