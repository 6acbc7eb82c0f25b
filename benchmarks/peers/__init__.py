"""Contestants of the race, one file each, and what runs one job of one of them."""
