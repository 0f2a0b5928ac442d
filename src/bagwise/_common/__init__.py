"""What every package may use; imports only `exceptions`."""
