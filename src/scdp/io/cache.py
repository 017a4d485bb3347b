"""Where things are kept that can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """scdp under $SCDP_CACHE, or the folder that this system has for caches."""
    given = os.environ.get("SCDP_CACHE")
    if given:
        return Path(given).expanduser() / "scdp"
    from platformdirs import user_cache_path

    return user_cache_path("scdp", appauthor=False)
