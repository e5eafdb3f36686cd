"""The tests, laid out like the code they test."""
