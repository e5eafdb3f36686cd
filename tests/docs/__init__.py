"""The documentation: complete, true, and its examples run."""
