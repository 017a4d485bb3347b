"""Kept results: what a clustering left enters; answers to questions about it leave."""

from scdp.results.folder import StoredResult, read_result, write_result

__all__ = ["StoredResult", "read_result", "write_result"]
