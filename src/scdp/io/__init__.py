"""Files and memory: what every other part uses to read, to write and to ask for room."""
