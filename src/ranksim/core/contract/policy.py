"""A policy: the facts, assumptions, statuses and plans that one service runs under."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator

from ranksim.core.contract.assumptions import Assumptions, Statuses
from ranksim.core.contract.facts import Facts
from ranksim.core.contract.located import Located, explain_mistakes, validate
from ranksim.core.contract.parameters import Leaf, Settings, laid, merged, tree_of
from ranksim.core.contract.plans import HOW_JOBS_RUN, AddOn, Catalogue, Plan
from ranksim.core.contract.public import Public
from ranksim.core.contract.quantities import Atomic
from ranksim.core.contract.rate_table import WindowEntry, as_tuple
from ranksim.core.errors import BadInput, near

if TYPE_CHECKING:
    from ruamel.yaml.comments import CommentedMap

CATALOGUES = ("illustrative", "illustrative-metered")
"""Names of the catalogues that come with the package; none holds the service's real prices."""


@cache
def shipped_catalogue(name: str) -> Catalogue:
    """One of `CATALOGUES`.

    Its JSON is read: it says what the YAML beside it says (`scripts/shipped_json`), and takes a hundredth of
    the time.
    """
    text = files("ranksim").joinpath(f"data/catalogues/{name}.json").read_text(encoding="utf-8")
    return Catalogue.model_validate_json(text)


def _illustrative() -> Catalogue:
    return shipped_catalogue("illustrative")


class Policy(Public):
    """What one service promises: the specified facts, the value of every assumption, and the plans on sale.

    `Policy()` is the default: all facts as specified, all assumptions at their default, the illustrative
    catalogue.
    """

    name: str = "default"
    facts: Facts = Facts()
    assumptions: Assumptions = Assumptions()
    statuses: Statuses = Statuses()
    catalogue: Catalogue = Field(default_factory=_illustrative)
    windows: Annotated[tuple[WindowEntry, ...], BeforeValidator(as_tuple)] = Field(
        (), description="S102, S103, S104: rate windows as a table, in place of those of the classes"
    )

    @field_validator("windows")
    @classmethod
    def _served(cls, stated: tuple[WindowEntry, ...]) -> tuple[WindowEntry, ...]:
        for place, entry in enumerate(stated):
            if entry.name in (other.name for other in stated[:place]):
                raise ValueError(f"two windows are called {entry.name!r}; give each its own name")
        return stated

    def check_by_class(self) -> None:
        """Raise BadInput where rate windows are a table, of what reckons with the three classes alone."""
        if self.windows:
            raise BadInput(
                "policy.windows: this answer is reckoned with the three classes of calls; leave windows out, "
                "or simulate the policy with `ranksim run`"
            )

    def __repr__(self) -> str:
        stated = (self.facts, self.assumptions, self.statuses)
        changed = sum(len(_changed_fields(section)) for section in stated)
        return f"<Policy {self.name!r}: {changed} changed of the defaults, catalogue {self.catalogue.name!r}>"

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a policy file. Raises BadInput naming the line of the first mistake."""
        from ranksim.core.contract.yamlfile import (
            read_yaml,  # most worlds read no YAML, and it takes long to read
        )

        return cls.read(read_yaml(path, "policy"), Path(path).parent)

    @classmethod
    def parse(cls, text: str, where: str = "policy") -> Self:
        """Read a policy from YAML text; `where` names it in errors. Raises BadInput."""
        from ranksim.core.contract.yamlfile import load_yaml

        return cls.read(load_yaml(text, where))

    @classmethod
    def read(cls, located: Located, folder: Path = Path()) -> Self:
        """Read a policy from YAML already loaded, such as a section of a scenario.

        Every section but `catalogue` may be partial: that is a shipped name, a path relative to `folder` or a
        catalogue, which extends another where it is not whole. Raises BadInput.
        """
        if not isinstance(located.data, dict) or "catalogue" not in located.data:
            return validate(cls, located)
        catalogue = read_catalogue(located["catalogue"], folder)
        return validate(cls, located.without("catalogue")).model_copy(update={"catalogue": catalogue})

    def replace(self, **changes: Any) -> Self:
        """A policy with some fields changed: `policy.replace(assumptions={"window": "gcra"})`.

        Nested mappings are merged; durations and money may be integers or text; `catalogue` may be a shipped
        name. Raises BadInput.
        """
        if isinstance(changes.get("catalogue"), str):
            changes["catalogue"] = read_catalogue(
                Located("replace", changes["catalogue"], {}, ("catalogue",)), Path()
            )
        try:
            return type(self).model_validate(merged(self, changes, every=True))
        except ValidationError as error:
            raise explain_mistakes(type(self), error, Located("replace", changes, {})) from None

    def changed(self, settings: Settings, folder: Path = Path()) -> Self:
        """The policy with parameters set by path, `{"policy.assumptions.window": "gcra"}`; others are left.

        The setting of `policy` itself may be the path of a policy file in `folder`. How jobs run is as before
        where another catalogue does not say, so that variants differ in what they state. Raises BadInput.
        """
        tree = tree_of(settings, "policy")
        if isinstance(tree, Leaf):
            if isinstance(tree.value, str):
                return type(self).load(folder / tree.value)._running_as(self)
            if not isinstance(tree.value, Mapping):
                raise BadInput(f"policy: expected the path of a file or a mapping, found {tree.value!r}")
            tree = {name: Leaf(value) for name, value in tree.value.items()}
        policy = self
        if "catalogue" in tree and not isinstance(tree["catalogue"], dict):
            named = tree.pop("catalogue").value
            if isinstance(named, str) and named.endswith((".yaml", ".yml")):
                named = str(folder / named)
                check_whole(catalogue_file(Path(named)))
            policy = self.replace(catalogue=named)._running_as(self)
        return policy.replace(**laid(policy, tree)) if tree else policy

    def _running_as(self, other: Self) -> Self:
        """The policy with what its catalogue leaves out of how jobs run as another policy states it."""
        return self.model_copy(update={"catalogue": self.catalogue.completed_by(other.catalogue)})

    def dump(self) -> str:
        """YAML that reads back as an equal policy: what differs from the default, each with its S or U."""
        from ruamel.yaml.comments import CommentedMap

        from ranksim.core.contract.yamlfile import write_yaml

        document = CommentedMap(name=self.name)
        for section in ("facts", "assumptions", "statuses"):
            changed = _changed(getattr(self, section))
            if changed:
                document[section] = changed
        if self.windows:
            document["windows"] = [
                entry.model_dump(mode="json", exclude_defaults=True) for entry in self.windows
            ]
        same = [name for name in CATALOGUES if shipped_catalogue(name) == self.catalogue]
        document["catalogue"] = same[0] if same else self.catalogue.model_dump(mode="json")
        return write_yaml(document)


def policy_of(source: Policy | str | Path | None) -> Policy:
    """Return a policy, read first where it is the path of a file; of None the default. Raises BadInput."""
    if source is None:
        return Policy()
    return source if isinstance(source, Policy) else Policy.load(source)


def check_whole(located: Located) -> Located:
    """Return a catalogue's YAML; raise BadInput where it says how some kinds of job run, and of others not.

    What is left out whole can be taken from the catalogue that this one is compared with; a part cannot.
    """
    stated = located.data if isinstance(located.data, dict) else {}
    for part, names in HOW_JOBS_RUN.items():
        given = stated.get(part)
        if isinstance(given, dict) and (missing := [name for name in names if name not in given]):
            raise located.error(
                f"says nothing of {', '.join(missing)}; in a comparison state all of {', '.join(names)}, or "
                "leave the whole part out, to take it from the other catalogue",
                part,
            )
    return located


NO_TERMS = {"name", "note", "unit_costs"}
"""What each catalogue has beside what it sells; who writes none of it means to change another."""


def read_catalogue(located: Located, folder: Path, extending: tuple[Path, ...] = ()) -> Catalogue:
    """Read a catalogue: a shipped name, a path relative to `folder`, or a mapping. Raises BadInput.

    `extending` are the files that extend it, one another.
    """
    name = located.data
    if not isinstance(name, str):
        return _read_terms(extended(located, folder, extending))
    if name in CATALOGUES:
        return shipped_catalogue(name)
    path = folder / name
    if name.endswith((".yaml", ".yml")) or path.is_file():
        if not path.is_file():
            raise located.error(f"no such file as {str(path)!r}; the path is relative to {str(folder)!r}")
        if path.resolve() in extending:
            raise located.error(f"{name} extends itself; name another catalogue")
        return _read_terms(catalogue_file(path, extending))
    raise located.error(
        f"expected one of {', '.join(CATALOGUES)}, or a catalogue's YAML file, found {name!r}"
        f"{near(name, CATALOGUES)}"
    )


def _read_terms(located: Located) -> Catalogue:
    """Return a catalogue; of one that only lacks most of its fields it is said how to change another."""
    try:
        return validate(Catalogue, located)
    except BadInput as error:
        lines = str(error).splitlines()
        if not all(line.endswith("is missing; add it") for line in lines) or NO_TERMS & located.data.keys():
            raise
    raise located.error(
        "a catalogue that extends none is written whole; add extends: illustrative to change what that "
        "sells, or set one value as --set policy.catalogue.plans.PLAN.FIELD=VALUE"
    )


def catalogue_file(path: Path, extending: tuple[Path, ...] = ()) -> Located:
    """Read the file of a catalogue, with what it extends. Raises BadInput."""
    from ranksim.core.contract.yamlfile import read_yaml

    return extended(read_yaml(path, "catalogue"), path.parent, (*extending, path.resolve()))


def extended(located: Located, folder: Path, extending: tuple[Path, ...] = ()) -> Located:
    """Return a catalogue's YAML laid over the catalogue that it `extends`, if any. Raises BadInput.

    Mappings are merged, without what is null, and all else is replaced. Without a name of its own it goes by
    that of its file, or as the other, changed.
    """
    if not isinstance(located.data, dict) or "extends" not in located.data:
        return located
    base = read_catalogue(located["extends"], folder, extending)
    name = f"{base.name}, changed" if located.path else Path(located.where).name
    own = {"name": name, **located.without("extends").data}
    for part, what, kind in (("plans", "plan", Plan), ("add_ons", "add-on", AddOn)):
        there, stated = getattr(base, part), own.get(part)
        required = [field for field, about in kind.model_fields.items() if about.is_required()]
        for name, terms in stated.items() if isinstance(stated, dict) else ():
            missing = [field for field in required if not isinstance(terms, dict) or field not in terms]
            if name not in there and missing:
                lacks = f"{base.name} has no {what} {name!r}, and a new one is written whole"
                says = near(name, there) or f"; add {', '.join(missing)}"
                raise located.error(lacks + says, part, name)
    plain = base.model_dump(mode="json", exclude_unset=True)
    return Located(located.where, _laid_over(base, plain, own), located.lines, located.path)


def _laid_over(old: Any, plain: Any, new: Any) -> Any:
    """Lay JSON over a value, which is `plain` as JSON; what is written in a short form is replaced whole."""
    if not isinstance(new, dict) or not isinstance(plain, dict) or isinstance(old, Atomic):
        return new
    parts = vars(old) if isinstance(old, BaseModel) else old
    changed = {name: _laid_over(parts.get(name), plain.get(name), value) for name, value in new.items()}
    return {name: value for name, value in (plain | changed).items() if value is not None}


def _changed_fields(section: BaseModel) -> list[str]:
    """The fields of a section that differ from the default."""
    default = type(section)()
    return [name for name in type(section).model_fields if getattr(section, name) != getattr(default, name)]


def _changed(section: BaseModel) -> "CommentedMap":
    """The fields of a section that differ from the default, with a comment that names their S or U."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    written = section.model_dump(mode="json")
    changed = CommentedMap()
    for name in _changed_fields(section):
        field, value = type(section).model_fields[name], getattr(section, name)
        if isinstance(value, BaseModel):
            changed[name] = _changed(value)
            continue
        changed[name] = written[name]
        if isinstance(value, tuple):
            changed[name] = CommentedSeq(written[name])
            changed[name].fa.set_flow_style()
        changed.yaml_add_eol_comment((field.description or "").partition(":")[0], name)
    return changed
