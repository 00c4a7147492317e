"""Small programs behind the Makefile's targets."""
