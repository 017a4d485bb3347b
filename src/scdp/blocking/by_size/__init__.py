"""Blockings for tables of any size: rules from labelled records, chosen by what they cost on the table at hand."""
