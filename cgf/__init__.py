"""CGF-softmax and its rivals: training, polynomial evaluation and CKKS evaluation of attention."""

__version__ = "0.1.0"
