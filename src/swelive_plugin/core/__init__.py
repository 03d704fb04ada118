"""The inner ring: values and pure functions. No I/O, no clock, no network, no import from another room."""
