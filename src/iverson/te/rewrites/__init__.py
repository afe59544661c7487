"""Programs of statements into others with the same meaning: inlining, sharing, tables, blocks."""
