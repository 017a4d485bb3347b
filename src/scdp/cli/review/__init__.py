"""Commands that ask people: about records without labels, and about a result."""
