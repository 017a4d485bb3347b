"""Kernels on distances between items: clusters, reference types, centroids and split-merge moves."""
