"""The campaign of `make leak-table`: one corpus of planted leaks and clean cells, and what each tool says of it."""
