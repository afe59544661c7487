"""Sampled functions: transforms, padding, statistics."""
