"""Attacks on rdmadiag by the thousand: what must hold, whatever comes. Not shipped."""
