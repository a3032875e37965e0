"""What is in use of a device, who holds it, and what that means."""
