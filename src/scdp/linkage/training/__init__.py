"""Learning the law from labelled clusters, in the order of the data: folds, prior, posterior, held-out check."""
