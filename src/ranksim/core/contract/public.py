"""The models that users make in Python themselves."""

from typing import TYPE_CHECKING, Any, Never

from pydantic import BaseModel, ValidationError

from ranksim.core.contract.located import Located, explain_mistakes
from ranksim.core.contract.quantities import Frozen
from ranksim.core.errors import BadInput

if TYPE_CHECKING:  # checkers take no class that is computed, and this one has no public name
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class OwnNames(ModelMetaclass):
    """Lists for `help` and completion the public names of a model that not every pydantic model has."""

    def __dir__(self) -> list[str]:
        inherited = {*dir(BaseModel)}
        return [name for name in super().__dir__() if name not in inherited and not name.startswith("_")]


class Public(Frozen, metaclass=OwnNames):
    """Base of the models that users make in Python: a mistake is told in the sentence that YAML would get."""

    def __init__(self, /, *unnamed: Never, **given: Any) -> None:
        """Check the fields. Raises BadInput."""
        if unnamed:
            name = type(self).__name__
            reads = f"; `{name}.load` reads a file" if hasattr(type(self), "load") else ""
            raise BadInput(f"{name}: expected fields by name, found {unnamed[0]!r}{reads}")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise explain_mistakes(type(self), error, Located(type(self).__name__, given, {})) from None

    def __str__(self) -> str:
        return repr(self)

    # As pydantic marks its own: a model in a file is checked as before, without calling this.
    vars(__init__)["__pydantic_base_init__"] = True
