"""What this machine has: installed tools, the device, and the providers that really load."""
