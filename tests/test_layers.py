"""The layers of the design: imports point down, and importing the library loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "r1_router"
LAYERS = (
    {"types", "errors"},
    {
        "files",
        "dtypes",
        "jsonl",
        "prompts",
        "replies",
        "records",
        "scoring",
        "scoring_tables",
        "intervals",
        "batcher",
        "benchmarks",
        "metrics",
        "pictures",
        "predictions",
        "reward_parts",
        "reward_rules",
        "rewards",
        "schema",
        "idle",
    },
    {"llm", "retrieval", "corpora", "fetch", "convert", "embedded", "checkpoints"},
    {
        "methods",
        "run",
        "results",
        "summary",
        "training",
        "report",
        "compare",
        "factbook",
        "synthesis",
        "diagnosis",
        "hops",
        "retrieval_quality",
        "judge",
        "scorecard",
        "verdicts",
    },
    {
        "config",
        "sections",
        "bases",
        "elsewhere",
        "cli_serve",
        "encoder_kinds",
        "deployment",
        "prepare",
        "commands",
        "cli",
        "cli_data",
        "cli_scores",
        "cli_train",
        "tuning",
        "curves",
        "cli_retrieval",
        "cli_index",
        "retrieving",
        "console",
        "stages",
        "synthesize",
        "teaching",
        "published",
        "questions",
        "datasets",
        "__main__",
        "app",
    },
)
LAYER_OF = {name: depth for depth, names in enumerate(LAYERS) for name in names}
HEAVY = ("torch", "transformers", "peft", "faiss", "sentence_transformers", "bm25s", "gguf", "matplotlib")


def module_name(path: Path) -> str:
    """The first part of the module's name inside the package: the file's, or its folder's."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_at_import_time(path: Path) -> list[str]:
    """Every dotted name imported by the module's body; imports inside functions and TYPE_CHECKING do not count."""
    names = []
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return names


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def test_every_module_has_a_layer() -> None:
    assert {module_name(path) for path in modules()} <= LAYER_OF.keys()


def test_imports_point_down_or_sideways_in_one_package() -> None:
    upward = []
    for path in modules():
        own = module_name(path)
        for name in imports_at_import_time(path):
            parts = name.split(".")
            if parts[0] == "r1_router" and LAYER_OF.get(parts[1], 0) > LAYER_OF[own]:
                upward.append(f"{path.relative_to(PACKAGE)} (layer {LAYER_OF[own]}) imports {name}")
    assert not upward, "\n".join(upward)


def test_the_lowest_layer_is_standard_library_only() -> None:
    allowed = {"r1_router", "numpy"} | set(sys.stdlib_module_names)  # numpy: array types in the Protocols' signatures
    for name in ("types", "errors"):
        found = {imported.split(".")[0] for imported in imports_at_import_time(PACKAGE / f"{name}.py")}
        assert found <= allowed, f"{name}.py imports {found - allowed}"


def heavy_packages_after(statement: str) -> list[str]:
    code = f"import sys; {statement}; print(*(set({HEAVY!r}) & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_library_loads_nothing_heavy() -> None:
    assert heavy_packages_after("import r1_router") == []


def test_importing_every_top_module_loads_nothing_heavy() -> None:
    """So `r1-router --help` answers at once; heavy packages are loaded by what uses them, when it is used."""
    names = sorted({module_name(path) for path in modules()})
    assert heavy_packages_after("import " + ", ".join(f"r1_router.{name}" for name in names)) == []
