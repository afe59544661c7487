"""Ops that run graphs: branches, loops, checkpoints, and their derivatives."""
