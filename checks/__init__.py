"""The questions that are asked inside a pinned environment. Nothing here imports the program."""
