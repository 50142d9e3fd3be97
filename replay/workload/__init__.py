"""A program's work as arrays over its regions: operations, array operations, linear algebra."""
