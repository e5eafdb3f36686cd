"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A slow machine is no failure. What matters is how work grows, and tests of that count it.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
