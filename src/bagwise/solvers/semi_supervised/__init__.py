"""Support vector machines for partly labelled rows."""
