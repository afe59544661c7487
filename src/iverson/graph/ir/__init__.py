"""Graphs as data: their grammar, text, rules and meaning, the ops that only graphs have, and the patterns
they name.
"""
