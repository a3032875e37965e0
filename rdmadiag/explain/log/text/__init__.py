"""What a text says as a whole: whether it is a log, how a program ended, how far a test came."""
