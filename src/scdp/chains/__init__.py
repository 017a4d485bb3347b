"""Markov chains over clusters and reference types, for the model of Daumé and Marcu: priors, state, kernels, sweeps."""
