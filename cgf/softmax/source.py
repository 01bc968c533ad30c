"""What a softmax's definition says, as a hash: results of one definition are not gone on with by another."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys

from cgf.softmax.base import Softmax

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def definition_hash(softmax: Softmax) -> str | None:
    """sha256 of the modules in which the softmax's class and those it derives from are written, up to ``Softmax``.

    Comments, docstrings and layout are left out. None where a module has no file, as of a class made in a session.
    """
    classes = type(softmax).__mro__[: type(softmax).__mro__.index(Softmax)]
    digest = hashlib.sha256()
    for name in sorted({cls.__module__ for cls in classes}):
        try:
            tree = ast.parse(inspect.getsource(sys.modules[name]))
        except (OSError, TypeError, SyntaxError, KeyError):
            return None
        digest.update(ast.dump(_without_docstrings(tree)).encode())
    return digest.hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree
