"""The command line: `scdp`."""
