"""Kernels of SCDP-3, which couples precisions and means."""
