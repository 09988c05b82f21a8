"""What users need for their tests: a pytest fixture, processes, fakes, the history checker."""
