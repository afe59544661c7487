"""Work that is counted, and what it costs."""
