"""Ops that compute: elementwise, reductions, scans, transforms, selections."""
