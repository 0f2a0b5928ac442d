"""Which shapes can a molecule take, and which of them explains its prediction?"""

__all__: list[str] = []
