"""Markov chains over clusters and reference types: state, kernels and plain twins, sweeps, chains."""
