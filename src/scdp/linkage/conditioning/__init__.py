"""Draws that keep what people know: the law of partitions, given that some records are the same and others differ."""
