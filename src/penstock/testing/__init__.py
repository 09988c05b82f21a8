"""Tools for users' tests: a pytest fixture, processes, fakes, the history checker."""
