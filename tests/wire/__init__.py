"""Model servers on loopback that speak the providers' real streaming formats from a script."""
