"""Save and load: parts and arrays in one file that is checked byte by byte and never executes code."""
