"""The example of docs/distances.md runs and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "distances.md"


def test_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(example, {})
    *estimate, negative = capsys.readouterr().out.splitlines()
    labels = np.array(re.findall(r"\d+", " ".join(estimate)), dtype=int)
    np.testing.assert_array_equal(labels, np.repeat([0, 1, 2], 10))
    assert float(negative) == 0
