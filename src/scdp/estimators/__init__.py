"""What both estimators share: what they accept, check, keep, explain and store."""
