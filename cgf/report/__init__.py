"""Tables, plots and one HTML page from result files; never touches a model."""
