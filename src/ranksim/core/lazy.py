"""Public names that load their modules on first use (PEP 562), as the stub of their package lists them.

As in SPEC 1 of Scientific Python: the `.pyi` beside a package states once, for type checkers and at run time,
where each name is. Its lines are `from MODULE import NAME as NAME` and are split here, because loading `ast`
takes longer than all of `import ranksim`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:  # whoever interrupts the start meets as few imports as can be
    from collections.abc import Callable


def attach_stub(
    package: str, file: str, commands: dict[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__file__`.

    `__getattr__` raises AttributeError for a name that is not in the stub. `commands` are names of commands,
    and what is called in place of each.
    """
    modules: dict[str, str] = {}
    with open(file.rpartition(".")[0] + ".pyi", encoding="utf-8") as stub:
        for line in stub:
            match line.split():
                case ["from", module, "import", name, "as", _]:
                    modules[name] = module
    names = sorted(modules)

    def load(name: str) -> object:
        from importlib import import_module

        if name not in modules:
            instead = (commands or {}).get(name)
            hint = f"; what the command {name} asks is {instead} in Python" if instead else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        if modules[name] == package:  # a package of public names, not a name in a module
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(names), names
