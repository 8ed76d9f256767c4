"""Publishing: what a run found, told to people and to machines; one file per format."""
