"""Many hosts: what their reports add up to, and which of them is the odd one."""
