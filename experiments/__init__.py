"""The paper again, table by table: specs, work and results. See `python -m experiments --help`."""
