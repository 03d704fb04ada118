"""Environments: what is found, built, kept and searched."""
