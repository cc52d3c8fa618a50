"""Multi-answer retrieval: the k passages that together cover every distinct answer."""
