"""Why each import within a function stands there, by kind: python scripts/repo/inner_imports.py (1: one has no reason)

An import belongs at the top of its file. It may stand within a function where it is of one of KINDS, and of no other:
what is loaded is followed through the files' own imports, so that a reason that is gone is found too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = (
    "PIL",
    "gguf",
    "google",
    "mkdocs",
    "onnx",
    "openfhe",
    "playwright",
    "rich",
    "wandb",
)  # some environment lacks them
SLOW = (  # each takes a tenth of a second or more, and what does not need it must not wait for it
    "accelerate",
    "datasets",
    "desilofhe",
    "huggingface_hub",
    "joblib",
    "matplotlib",
    "pandas",
    "peft",
    "pyarrow",
    "safetensors",
    "scipy",
    "sklearn",
    "statsmodels",
    "submitit",
    "timm",
    "tokenizers",
    "torch",
    "torchvision",
    "transformers",
)
KINDS = {
    "optional package": "an environment may lack it, and does without what the function does",
    "slow package": "--help, or what needs no model, must not wait for it",
    "slow module": "a module of this project that loads a slow or optional package, which this file does not",
    "circle": "a module that imports this one",
    "module of the tests": "it is found once their folder is on the path",
}
FOLDERS = ("cgf", "models", "scripts", "examples")


@dataclass(frozen=True)
class InnerImport:
    """An import within a function: file, line, the function's name, the statement, and its kind (None: no reason)."""

    path: str
    line: int
    function: str
    text: str
    kind: str | None


class Sources:
    """The Python files of a tree, by path from its root, and what each loads when it is imported."""

    def __init__(self, texts: Mapping[str, str], tests: Collection[str] = ()) -> None:
        self.tests = tests  # names of modules
        self.trees = {path: ast.parse(text) for path, text in sorted(texts.items())}
        self.paths = {module_of(path): path for path in self.trees}
        self._loaded: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    @cached_property
    def inner(self) -> list[InnerImport]:
        """Every import within a function, each once, in the order of files and lines."""
        return [each for path in self.trees for each in self._of_file(path)]

    def _of_file(self, path: str) -> Iterator[InnerImport]:
        for function, node in within_functions(self.trees[path]):
            yield InnerImport(path, node.lineno, function, ast.unparse(node), self._kind(path, node))

    def _kind(self, path: str, node: ast.Import | ast.ImportFrom) -> str | None:
        own = module_of(path)
        _, packages = self.loaded(own)
        for target in self.targets(node):
            modules, others = self.loaded(target)
            if top := {target.partition(".")[0]} & (others - packages):
                return "optional package" if top & set(OPTIONAL) else "slow package"
            if others - packages:
                return "slow module"
            if own in modules:
                return "circle"
            if target in self.tests:
                return "module of the tests"
        return None

    def targets(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        """The modules that a statement loads; of ``from a import b`` it is a.b where that is one of these files."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        below = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in self.paths else str(node.module) for name in below]

    def loaded(self, module: str) -> tuple[frozenset[str], frozenset[str]]:
        """(modules of these files, slow and optional packages) that importing a module loads, itself among them."""
        if module not in self._loaded:
            seen, packages, left = set[str](), set[str](), [module]
            while left:
                name = left.pop()
                if name in seen:
                    continue
                seen.add(name)
                top, _, below = name.partition(".")
                if top in (*SLOW, *OPTIONAL):
                    packages.add(top)
                elif below:
                    left.append(name.rpartition(".")[0])  # the packages that it lies in
                if name in self.paths:
                    left += [each for node in at_top(self.trees[self.paths[name]]) for each in self.targets(node)]
            self._loaded[module] = frozenset(seen & set(self.paths)), frozenset(packages)
        return self._loaded[module]


def module_of(path: str) -> str:
    """The name under which a file is imported; the files of models/ are those of cgf.models."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"cgf.{name}" if name.partition(".")[0] == "models" else name


def within_functions(tree: ast.Module) -> list[tuple[str, ast.Import | ast.ImportFrom]]:
    """(name of the function, statement) of each import within one, by line; of the outer one, where they are nested."""
    imports: dict[int, tuple[str, ast.Import | ast.ImportFrom]] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    imports.setdefault(id(node), (function.name, node))
    return sorted(imports.values(), key=lambda pair: pair[1].lineno)


def at_top(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a file is imported: not those within functions, nor those for type checkers alone."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            left += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            left += ast.iter_child_nodes(node)


def of_tree(root: Path = ROOT) -> Sources:
    """The sources of a checkout: what is imported of cgf, models, scripts and examples, links left out."""
    files = [*root.glob("*.py"), *(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))]
    own = [path for path in files if path.resolve() == path.absolute()]
    texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in own}
    return Sources(texts, {path.stem for path in (root / "tests").rglob("*.py")})


def main() -> int:
    """Prints how many there are of each kind, and every one without a reason."""
    inner = of_tree().inner
    counts = Counter(each.kind for each in inner)
    for kind, why in KINDS.items():
        print(f"{counts[kind]:>4}  {kind}: {why}")
    without = [each for each in inner if each.kind is None]
    for each in without:
        print(f"{each.path}:{each.line} in {each.function}: {each.text} belongs at the top of the file")
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())
