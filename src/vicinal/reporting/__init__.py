"""A report of a predictor in one HTML file."""
