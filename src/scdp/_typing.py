"""The aliases of array types, once for the whole package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
# Cluster labels and numbers of rows, where memory counts.
SmallIntegers = NDArray[np.int32]
# Features of pairs, in single precision.
Features = NDArray[np.float32]
# The group of each row (clusters never reach across groups), or None where there is one group.
Groups = NDArray[Any] | None
# Codes packed bit by bit.
Words = NDArray[np.uint64]
# Arrays by name, as they are written to a file.
Arrays = dict[str, NDArray[Any]]
