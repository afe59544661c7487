"""From statements to compiled code: loop nests or matrix products, one native call, and reports of both."""
