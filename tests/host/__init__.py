"""Tests on the real host: with the tiny model, or with a scripted engine."""
