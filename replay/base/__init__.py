"""Records of predictions, figures with a range, assumptions and error intervals."""
