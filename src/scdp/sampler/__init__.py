"""Markov chains over clusters and reference types: state, kernels with their plain twins, sweeps and chains."""
