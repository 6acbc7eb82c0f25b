"""Row-wise loops compiled by numba: the only files that import it. Each has a slow twin in the tests."""
