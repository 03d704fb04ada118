"""Recipes: what a repository says about how its tests are run. Pure: names and text in, recipes out."""
