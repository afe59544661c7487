"""What records of ops share: batching, entry maps, loops and index notation."""
