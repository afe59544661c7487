"""Reverse and forward mode over statements."""
