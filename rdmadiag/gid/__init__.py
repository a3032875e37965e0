"""GIDs: the value, the route policy, and what the stacks above would pick."""
