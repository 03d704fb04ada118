"""Parts of the probe that ride beside it: copied, not imported, and free of imports from this package."""
