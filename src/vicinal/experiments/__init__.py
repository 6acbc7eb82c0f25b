"""The paper again, table by table: specs, the work they ask for, and what is written. See `vicinal reproduce`."""
