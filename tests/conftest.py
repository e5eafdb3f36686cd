"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A slow machine is no failure. What matters is how work grows, and tests of that count it.
settings.register_profile("unhurried", deadline=None)
# CI judges a change, so it tries the same examples each time; new ones are found where people work.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "unhurried")
