"""The rules of single calls and of small groups of them."""
