"""Pages about a run of the paper's experiments: tables beside the paper's, what agrees and why not, and pictures."""
