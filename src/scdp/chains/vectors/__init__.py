"""Kernels on points: clusters, reference types, means and split-merge moves."""
