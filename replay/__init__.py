"""The model: a signature on a machine profile gives a prediction."""
