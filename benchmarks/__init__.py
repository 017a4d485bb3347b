"""Studies that take minutes: simulation-based calibration, planted bugs, speed."""

import sys
from pathlib import Path

# Some benchmarks run the plain twins and the cases of the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
