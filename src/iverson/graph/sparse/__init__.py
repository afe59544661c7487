"""Graphs on sparse values as graphs on their entries and index arrays."""
