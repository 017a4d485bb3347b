"""The generative model of Daumé and Marcu: priors, densities, simulation and exact small-n posteriors."""
