"""Tests and intervals of a comparison of two softmaxes, and the labels that they support."""
