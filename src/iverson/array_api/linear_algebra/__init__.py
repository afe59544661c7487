"""Products, decompositions and systems."""
