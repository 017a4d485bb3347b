"""Digests of draws and labels of small runs: a change that should not change results shows that it does not."""
