"""``rows`` names one thing, the rows of a matrix of scores: results, data and samples have names of their own."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("report", "study", "bench", "data", "client", "server")
# where these packages do have score rows: module and the function or class that binds the name
SCORE_ROWS = {
    "cgf.bench.alternatives: cost",
    "cgf.bench.alternatives: table",
    "cgf.bench.attention: Shape",  # their kind: a key of the result file
    "cgf.bench.batched: run",
    "cgf.bench.complexity: Shape",
    "cgf.bench.complexity: counted",
    "cgf.bench.job: _work",
    "cgf.bench.job: rows_of",
    "cgf.bench.matrix: spanning_matrix",
    "cgf.bench.noise: measure",
    "cgf.bench.noise: normal_scores",
    "cgf.bench.properties: kept",
    "cgf.bench.softmax_cost: at_its_best",
    "cgf.bench.softmax_cost: batched",
    "cgf.bench.softmax_cost: cho",
    "cgf.bench.softmax_cost: ways_of.side_by_side",
}


def bindings(tree, name, within=""):
    """Where a name is bound, as often as it is: functions and classes by their dotted names, '' for the module."""
    for node in ast.iter_child_nodes(tree):
        inner = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{within}.{node.name}".lstrip(".")
        if name in _bound(node):
            yield within
        yield from bindings(node, name, inner)


def _bound(node):
    """The names that a node binds by itself: as variable, attribute, parameter, function, class, import or pattern."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case (
            ast.ExceptHandler(name=name)
            | ast.MatchAs(name=name)
            | ast.MatchStar(name=name)
            | ast.MatchMapping(rest=name)
        ):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
    return []


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_rows_are_score_rows_alone():
    found = {
        f"{module_of(path)}: {where}"
        for package in PACKAGES
        for path in (ROOT / "cgf" / package).rglob("*.py")
        for where in bindings(ast.parse(path.read_text()), "rows")
    }
    assert not found - SCORE_ROWS, "rows are those of a score matrix: take results, records, indices or table_rows"
    assert not SCORE_ROWS - found, "an exception is stale"


@pytest.mark.parametrize(
    "source, where",
    [
        ("rows = 1", ""),
        ("def f():\n    for _, rows in {}: pass", "f"),
        ("def f():\n    with open('a') as rows: pass", "f"),
        ("class C:\n    rows: int", "C"),
        ("class C:\n    def f(self):\n        self.rows = 1", "C.f"),
        ("def f(*, rows=1): pass", "f"),
        ("def f():\n    return lambda rows: 1", "f"),
        ("def f():\n    return [1 for rows in ()]", "f"),
        ("def f():\n    if (rows := 1): pass", "f"),
        ("def rows(): pass", ""),
        ("from a import rows", ""),
        ("import a as rows", ""),
        ("try: pass\nexcept ValueError as rows: pass", ""),
        ("match 1:\n    case [*rows]: pass", ""),
    ],
)
def test_every_binding_is_seen(source, where):
    assert list(bindings(ast.parse(source), "rows")) == [where]


def test_what_is_only_read_or_named_otherwise_is_none():
    source = "print(a.rows, rows, f(rows=1), {'rows': 1})\ntable_rows = 1\nfor row in rows_of(): pass"
    assert not list(bindings(ast.parse(source), "rows"))
