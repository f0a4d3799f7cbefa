"""Files that a server's folder is made of; they import nothing of orun."""
