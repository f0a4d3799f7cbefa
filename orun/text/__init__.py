"""Text as people write and read it: quantities, suggestions, names in other tools, Markdown."""
