"""Questions to people: draws of a partition enter; the question worth most, and what its answer changes, leave."""
