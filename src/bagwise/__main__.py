"""The command ``bagwise``, also ``python -m bagwise``."""

from bagwise.cli import main

if __name__ == "__main__":
    main()
