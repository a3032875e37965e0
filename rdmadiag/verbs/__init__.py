"""The verbs library through ctypes. Loaded in a child process alone: see query."""
