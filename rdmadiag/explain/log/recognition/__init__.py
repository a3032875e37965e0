"""What a line means for RDMA: the vocabulary, the messages of stacks, signs, calls."""
