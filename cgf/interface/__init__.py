"""The Python interface: a model and a loader of one's own in, what the commands compute out."""
