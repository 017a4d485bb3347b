"""Studies that take minutes: simulation-based calibration, planted bugs, speed."""
