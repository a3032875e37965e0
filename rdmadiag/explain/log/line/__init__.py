"""What one line of a log holds, by its structure: text in, values out."""
