"""Run every case and write its digests: `python -m digests.record [SECTION ...]` (make digests)."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

from digests.adapter import Results
from digests.cases import CASES

FILE = Path(__file__).with_name("digests.json")


def digest(results: Results) -> dict[str, str]:
    """By name of the array, its shape and a hash of its numbers, whatever their type."""
    return {name: _digest_array(np.asarray(array)) for name, array in results.items()}


def _digest_array(array: np.ndarray) -> str:
    whole = array.dtype.kind in "iu"
    # The last digits of a sum may depend on the machine.
    numbers = array.astype("<i8") if whole else np.round(array.astype("<f8"), 6) + 0.0
    hashed = hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:16]
    return f"{'x'.join(map(str, array.shape))} {hashed}"


def read_digests() -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main(sections: list[str]) -> None:
    recorded = read_digests() if FILE.exists() else {}
    for section in sections or list(CASES):
        start = time.process_time()
        recorded[section] = {name: digest(case()) for name, case in CASES[section].items()}
        print(f"{section}: {len(recorded[section])} cases, {time.process_time() - start:.0f} s of processor time")
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
