"""The command ``bagwise``, also ``python -m bagwise``."""


def main() -> None:
    """Run the command line."""
    from bagwise.cli import main as run

    run()


if __name__ == "__main__":
    main()
