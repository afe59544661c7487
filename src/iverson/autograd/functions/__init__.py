"""Custom ops with a hand-written derivative."""
