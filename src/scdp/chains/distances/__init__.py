"""Kernels on distances between items: clusters, reference types and centroids."""
