"""Strict YAML, read with line numbers: policies, scenarios and what else people write; and written.

Files are YAML 1.2; timestamps stay text, duplicate keys are refused.
"""

from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import RoundTripRepresenter

from ranksim.core.contract.file_kinds import BEGIN, kind_of, other_kind, told_other
from ranksim.core.contract.located import Located, Part, dotted
from ranksim.core.errors import BadInput, check_kind
from ranksim.core.printable import printable

LARGEST_FILE = 64 << 20
"""Bytes that a file may have."""

MOST_REPEATED = 100_000
"""Values that the aliases of a file may repeat in all: ten of ten each, nine deep, are a billion."""


class _Representer(RoundTripRepresenter):
    """Writes text in quotes, with escapes, where anything in it is not printable; U+0085 would be a space."""

    def represent_str(self, data: str) -> ScalarNode:
        style = None if data.isprintable() else '"'
        node: ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", data, style=style)
        return node


_Representer.add_representer(str, _Representer.represent_str)


def write_yaml(
    data: Any, heading: Iterable[str] = (), footing: Iterable[str] = (), width: int | None = None
) -> str:
    """Return YAML that reads back as `data`, with lines of comment before and after it.

    Comments may quote what others wrote: none ends before its line does (`comment`). `width`: characters of a
    line before text is folded.
    """
    stream = StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.Representer = _Representer
    if width is not None:
        writer.width = width
    writer.dump(data, stream)
    before, after = (
        "".join(f"# {comment(line)}".rstrip() + "\n" for line in lines) for lines in (heading, footing)
    )
    return before + stream.getvalue() + after


def comment(text: str) -> str:
    """Return text as a comment of YAML may say it: whatever ends a line is escaped."""
    return printable(text)


def read_yaml(path: str | Path, expected: str = "") -> Located:
    """Read a YAML file. Raises BadInput when it is missing, not text or not YAML.

    So it does when the file is plainly of another kind than is `expected`, such as "scenario".
    """
    check_kind(expected or "file", path, str | Path, "the path of a file")
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise BadInput(f"{path}: is larger than {LARGEST_FILE >> 20} MiB; expected less YAML")
        begun = next((kind for how, kind in BEGIN.items() if content.startswith(how)), "")
        if expected and begun:
            raise BadInput(f"{path}: {told_other(begun, expected)}")
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; check the path, which is read from {Path.cwd()}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a readable file") from None
    located = load_yaml(text, str(path))
    kind = other_kind(located.data, expected) if expected and isinstance(located.data, dict) else ""
    if kind:
        raise located.error(told_other(kind, expected))
    return located


def refuse_yaml(path: str | Path, expected: str) -> None:
    """Raise BadInput where a file that is no YAML was expected, and a YAML file of a known kind is given.

    Only what is named as YAML is read, or is JSON over several lines as --json prints it: a recording may be
    large, and has an entry on each line.
    """
    try:
        if Path(path).suffix not in (".yaml", ".yml") and not _is_laid_out(Path(path)):
            return
        located = read_yaml(path)
    except (BadInput, OSError):
        return
    kind = kind_of(located.data) if isinstance(located.data, dict) else ""
    if kind:
        raise located.error(told_other(kind, expected))


def _is_laid_out(path: Path) -> bool:
    """Whether a file begins as JSON does that has a line for each field."""
    with path.open("rb") as file:
        return file.readline(8).strip() == b"{"


def load_yaml(text: str, where: str) -> Located:
    """Read YAML text; `where` names it in errors. Raises BadInput with the line."""
    check_kind(where, text, str, "YAML text; `load` reads the file of a path")
    try:
        node = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise BadInput(f"{where}{line}: not valid YAML: {problem}") from None
    except YAMLError as error:
        raise BadInput(f"{where}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise BadInput(f"{where}: nested too deeply; expected a few levels") from None
    if node is None:
        raise BadInput(f"{where}: is empty; expected a mapping of fields")
    lines: dict[tuple[Part, ...], int] = {(): node.start_mark.line + 1}
    return Located(where, _plain(node, (), lines, where, (), set()), lines)


def _plain(
    node: Node,
    path: tuple[Part, ...],
    lines: dict[tuple[Part, ...], int],
    where: str,
    above: tuple[Node, ...],
    met: set[int],
) -> Any:
    line = node.start_mark.line + 1
    if id(node) in met and len(lines) - len(met) > MOST_REPEATED:
        raise BadInput(
            f"{where}:{line}: {dotted(path)}: aliases repeat more than {MOST_REPEATED:,} values; write fewer"
        )
    met.add(id(node))
    if node in above:
        raise BadInput(f"{where}:{line}: {dotted(path)}: contains itself; remove the alias")
    above = (*above, node)
    if isinstance(node, MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node.value, str):
                raise BadInput(f"{where}:{key_line}: a field name is text, found a list or mapping")
            key = key_node.value
            inner = (*path, key)
            if key in mapping:
                raise BadInput(f"{where}:{key_line}: {dotted(inner)}: written twice; remove one")
            lines[inner] = key_line
            mapping[key] = _plain(value_node, inner, lines, where, above, met)
        return mapping
    if isinstance(node, SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_plain(item, (*path, index), lines, where, above, met))
        return items
    # In folded text the loader marks each fold with a bell, for writing it back.
    folded = isinstance(node, ScalarNode) and node.style == ">"
    text = node.value.replace("\a", "") if folded else node.value
    tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
    try:
        return _scalar(tag, text)
    except (KeyError, ValueError):
        sentence = f"expected a value of type {tag}, found {text[:40]!r}; put it in quotes if it is text"
        raise Located(where, None, lines, path).error(sentence) from None


def _scalar(tag: str, text: str) -> Any:
    """What a scalar of a YAML type says. Raises KeyError or ValueError where it is not of that type."""
    match tag:
        case "null":
            return None
        case "bool":
            return {"true": True, "false": False}[text.lower()]
        case "int":
            digits = text.replace("_", "")
            return int(digits, 0) if digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(digits)
        case "float":
            return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            text.encode()  # half of a surrogate pair is no text
            return text
