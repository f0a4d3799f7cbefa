"""Files and folders: durable writes, and files that commands write where the user says."""
