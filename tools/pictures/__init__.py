"""What tools/plot and tools/report draw with."""
