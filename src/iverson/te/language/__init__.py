"""The language that users write: placeholders, computes, reductions, scans, and hints for the schedule."""
