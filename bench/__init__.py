"""What rdmadiag costs, side by side with what it is built from and with its peers."""
