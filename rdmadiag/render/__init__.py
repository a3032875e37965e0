"""What people and programs are shown; nothing is decided here."""
