"""Plain Python that the package needs: it imports nothing of the package."""
