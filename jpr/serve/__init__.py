"""The pipeline behind HTTP, and behind the Model Context Protocol."""
