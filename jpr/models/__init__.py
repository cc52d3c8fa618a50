"""Neural networks: numbers in, numbers out; they never see a string."""
