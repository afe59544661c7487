"""Tensor expressions as ops of the table: entry maps, batches, parts and rules."""
