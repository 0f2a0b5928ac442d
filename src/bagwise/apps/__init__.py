"""What one field needs: only the command line imports these packages, inside its commands."""

__all__: list[str] = []
