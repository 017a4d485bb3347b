"""Reports for people: results enter, files that appear whole or not at all leave."""
