"""The generative model of Daumé and Marcu: priors, densities, forward simulation and exact small-n posteriors."""
