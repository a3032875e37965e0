"""One host as all its witnesses see it: where they differ, both are kept. Pure."""
