"""Provisioning and the demonstration: everything that starts a federation."""
