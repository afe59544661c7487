"""Functions run once on values without entries, and written down; what a trace reads, writes and draws around
it.
"""
