import os

# Before scipy is imported: scikit-learn's array API checks run instead of being skipped.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest

from browser import chromium, open_page  # noqa: F401


@pytest.fixture
def rng():
    return np.random.default_rng(0)
