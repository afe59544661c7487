"""From a graph to programs: segments, buffers, what is computed again, loops and branches, and what is kept
on disk.
"""
