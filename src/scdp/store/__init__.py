"""Stores: records, the entities they belong to, and all that ever happened to these, in one folder that grows."""
