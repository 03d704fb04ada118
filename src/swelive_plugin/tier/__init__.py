"""Tiers: a rendered folder of tasks with the answer key in a sibling folder, and runs of agents over it."""
