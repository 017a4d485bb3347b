"""What only the reproduction of the paper needs: opponents, loaders, experiments. Only the command line imports it."""
