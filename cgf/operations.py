"""The kinds of operations on ciphertexts that are counted and timed, in the one order that every table has them in."""

from __future__ import annotations

TITLES = {  # kind -> its column
    "add": "Add",  # additions and subtractions, of a constant too
    "pmult": "PMult",  # products with a public vector or number
    "imult": "IMult",  # products with the imaginary unit
    "cmult": "CMult",  # products and squares of ciphertexts, not yet relinearized
    "rotate": "Rot",
    "relinearize": "relinearize",
    "boot": "Boot",
}
KINDS = tuple(TITLES)
