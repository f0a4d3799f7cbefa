"""Text for people: quantities, suggestions, names in other tools, Markdown."""
