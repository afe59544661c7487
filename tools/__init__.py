"""Programs that write parts of the project from its tables, and that count what is in it."""
