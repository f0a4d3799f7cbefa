"""Facts about this machine: installed packages, the device, providers that really load."""
