"""Facts about this machine: installed packages, device, resources, providers that really load."""
