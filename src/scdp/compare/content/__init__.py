"""What columns of real tables hold: texts of cells go in, their parts come out, and who scores them."""
