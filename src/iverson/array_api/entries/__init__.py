"""Arrays made, joined, rearranged, searched and changed."""
