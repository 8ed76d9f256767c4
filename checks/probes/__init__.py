"""One probe for each check: from a subject to the numbers that were observed."""
