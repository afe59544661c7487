"""Graphs that are called: ops with derivatives of their own, and what runs for them."""
