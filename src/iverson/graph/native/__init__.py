"""What one equation, or a group of them, is as native code: loop nests, views, library calls, and the order
of their axes.
"""
