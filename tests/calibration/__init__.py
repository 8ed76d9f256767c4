"""How often the rule of timing is wrong, and how often it finds what is there, beside the rules of other tools."""
