"""Whole programs, as somebody who has read the README writes them, held against references."""
