"""The replay of a program on a machine: jobs and threads on its cores, caches, memory and accelerators."""
