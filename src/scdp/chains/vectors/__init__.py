"""Kernels on points: clusters, reference types and means; SCDP-3's coupling of these, and its sweep."""
