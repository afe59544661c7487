"""Which points of a domain are visited: exact loops, and boxes with guards where those are faster."""
