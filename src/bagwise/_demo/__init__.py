"""The content of ``bagwise demo``: shipped data, methods, key instances, the five systems."""
