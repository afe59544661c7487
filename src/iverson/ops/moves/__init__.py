"""Ops that move, choose or order entries."""
