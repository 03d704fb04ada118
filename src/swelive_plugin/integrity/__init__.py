"""Integrity: what judges whether a session can be believed. Pure, but for the mutated test files."""
