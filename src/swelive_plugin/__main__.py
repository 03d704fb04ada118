"""``python -m swelive_plugin …``: the command line, for an interpreter whose scripts are not on PATH."""

from swelive_plugin.cli import main

if __name__ == "__main__":
    main()
