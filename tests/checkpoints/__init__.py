"""Small trained models for the tests, and how they were made."""
