"""Machine profiles: their records, their files, and the library that ships with foretrace."""
