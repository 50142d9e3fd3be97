"""The core model: sampled paths of a program run through a model of an out-of-order pipeline."""
