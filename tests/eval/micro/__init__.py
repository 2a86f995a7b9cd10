"""Our own suite: each task is aimed at one failure, two in each of two small repositories.

A module is a repository: its files, and its tasks with their hidden tests and reference solution.
"""
