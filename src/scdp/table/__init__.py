"""Tables of records, and specs: what enters a model of records, written by hand, read from TOML, or proposed."""
