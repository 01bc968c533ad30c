"""Adapters of host models alone: how a softmax gets into an attention, and out of it again."""
