"""Software-defined events: a library that programs link with, and readers of its boards from outside."""
