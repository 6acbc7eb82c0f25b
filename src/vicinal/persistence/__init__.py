"""Parts and arrays to and from one safe file: nothing in it is executed, and every byte of it is checked."""
