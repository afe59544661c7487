"""Graphs of tensor functions: traced, differentiated, simplified, evaluated."""
