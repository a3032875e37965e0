"""What an errno, a status or a line of a log means, and what to do about it."""
