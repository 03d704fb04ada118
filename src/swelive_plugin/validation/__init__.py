"""Validation: what the gold patch proves about an instance. `derive` is pure; `validate` runs the controls."""
