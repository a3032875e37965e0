"""What other software would pick from the same table: one file a stack, pure."""
