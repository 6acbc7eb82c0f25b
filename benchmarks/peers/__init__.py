"""Libraries in the benchmark, one file each, and the script that runs one job of one of them."""
