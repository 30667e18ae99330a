"""The command line as a module: ``python -m specdens`` is ``specdens``."""

from specdens._cli import main

if __name__ == "__main__":
    main()
