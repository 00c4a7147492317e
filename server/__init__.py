"""The server: round loop, aggregation, held-out evaluation, gate and curriculum. Importing it loads nothing heavy."""
