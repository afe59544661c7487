"""Pullbacks and pushforwards of graphs, for any pattern of cotangents that are given and results that are
read.
"""
