"""The bodies of requests and what each field accepts (U84, U108).

Types are strict and unknown fields are ignored. In a PATCH an absent field stays as it is, and null clears a
field only where it may be null; anything else is answered with validation_failed, which names every field at
fault. Endpoint bodies stand with the webhooks.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import custom_error_schema

from ranksim.core.contract.policy import Policy
from ranksim.core.service.calls import Body, Reply
from ranksim.core.service.errors import problem

MOST_KEYWORDS = 10_000
"""Keywords that one call may bring."""

ERRORS_SHOWN = 20

MISSING = "a value: the field is required"


CONTROLS = r"\x00-\x1f\x7f-\x9f"
"""The control characters, as a pattern has them between brackets: no text of a body contains one (U108)."""


def _trim(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _trim_each(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return [value.strip() if isinstance(value, str) else value for value in values]


@dataclass(frozen=True, slots=True)
class Expecting:
    """Reports what a field expects, in the words of the answer, whatever is wrong with its value."""

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Wrap the field's schema; pydantic does the rest by itself, for each of 10,000 keywords."""
        return custom_error_schema(
            handler(source),
            custom_error_type="expected",
            custom_error_message="{text}",
            custom_error_context={"text": self.text},
        )


Trimmed = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=rf"^[^{CONTROLS}]+$"),
    Expecting("text of 1 to 200 characters, none of them a control character"),
]
Text = Annotated[Trimmed, BeforeValidator(_trim)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=100), Expecting("an id")]
Host = Annotated[
    str,
    StringConstraints(
        max_length=253,
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$",
        to_lower=True,
    ),
    Expecting("a host name such as www.example.com"),
]
Path = Annotated[
    str,
    StringConstraints(max_length=500, pattern=rf"^/[^\s{CONTROLS}]*$"),
    Expecting("a path such as /shop, or null"),
]
Flag = Annotated[bool, Expecting("true or false")]
Ids = Annotated[list[Id], Field(max_length=MOST_KEYWORDS)]
SomeIds = Annotated[list[Id], Field(min_length=1, max_length=MOST_KEYWORDS)]
Keywords = Annotated[
    list[Trimmed], Field(min_length=1, max_length=MOST_KEYWORDS), BeforeValidator(_trim_each)
]


class RequestBody(BaseModel):
    """What every body shares: strict types, unknown fields ignored (U84)."""

    model_config = ConfigDict(strict=True, extra="ignore", defer_build=True)

    def sent(self) -> dict[str, Any]:
        """Return the fields that were sent, as validated: the changes that a PATCH asks for."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class DomainBody(RequestBody):
    """POST domains."""

    host: Host
    path: Path | None = None
    label: Text | None = None


class DomainPatch(RequestBody):
    """PATCH a domain."""

    path: Path | None = None
    label: Text = ""


class NamedBody(RequestBody):
    """POST keyword-lists and POST labels."""

    domain_id: Id
    name: Text


class NamedPatch(RequestBody):
    """PATCH a keyword list or a label."""

    name: Text = ""


class CompetitorBody(RequestBody):
    """POST competitors."""

    domain_id: Id
    host: Host


class CompetitorPatch(RequestBody):
    """PATCH a competitor."""

    host: Host = ""


class KeywordsBody(RequestBody):
    """POST keywords (S32)."""

    list_id: Id
    keywords: Keywords
    dry_run: Flag = False


class KeywordPatch(RequestBody):
    """PATCH a keyword: its labels."""

    label_ids: Ids = Field(default_factory=list)


Part = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,39}$")]
PairingText = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,39}/[a-z0-9][a-z0-9_.-]{0,39}$")
]


class Pairing(RequestBody):
    """An engine-and-device pairing in its long form."""

    engine: Part
    device: Part


Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$"), Expecting("a country code such as DE")]
Location = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$"),
    Expecting("a location id of letters and digits"),
]
Language = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$"),
    Expecting("a language code such as de"),
]


class Geography(RequestBody):
    """A place that is searched from: a country, and in it a location and a language."""

    country: Country
    location_id: Location | None = None
    language: Language | None = None


EngineDevice = Annotated[
    Pairing | PairingText,
    Expecting('a pairing such as "google/desktop" or {"engine": "google", "device": "desktop"}'),
]
EngineDevices = Annotated[list[EngineDevice], Field(min_length=1, max_length=100)]
Geographies = Annotated[list[Geography], Field(min_length=1, max_length=100)]


class ScanPatch(RequestBody):
    """PATCH a scan."""

    name: Text | None = None
    list_ids: SomeIds = Field(default_factory=list)
    engine_devices: EngineDevices = Field(default_factory=list)
    geographies: Geographies = Field(default_factory=list)
    active: Flag = True

    def lists(self) -> list[str]:
        """Return the lists, each once."""
        return list(dict.fromkeys(self.list_ids))

    def pairings(self) -> list[str]:
        """Return the pairings as "engine/device", each once."""
        pairs = (p if isinstance(p, str) else f"{p.engine}/{p.device}" for p in self.engine_devices)
        return list(dict.fromkeys(pairs))

    def places(self) -> list[str]:
        """Return the geographies as "COUNTRY/location id/language", each once."""
        places = (f"{g.country}/{g.location_id or ''}/{g.language or ''}" for g in self.geographies)
        return list(dict.fromkeys(places))


class ScanBody(ScanPatch):
    """POST scans (S33)."""

    domain_id: Id
    list_ids: SomeIds
    engine_devices: EngineDevices
    geographies: Geographies
    dry_run: Flag = False


class JobBody(RequestBody):
    """POST jobs (S34, U41)."""

    kind: Annotated[
        Literal["rank_run", "crawl", "site_optimization", "ai_scan"],
        Expecting("one of rank_run, crawl, site_optimization, ai_scan"),
    ]
    domain_id: Id
    dry_run: Flag = False


class BriefsBody(RequestBody):
    """POST keyword-briefs: keywords by their ids, one id, or words for a domain."""

    keyword_ids: SomeIds | None = None
    keyword_id: Id | None = None
    domain_id: Id | None = None
    keywords: Keywords | None = None
    dry_run: Flag = False

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        words = self.keywords is not None
        if [self.keyword_ids is not None, self.keyword_id is not None, words].count(True) != 1:
            raise PydanticCustomError("expected", "exactly one of keyword_ids, keyword_id, keywords")
        if words and self.domain_id is None:
            raise PydanticCustomError("expected", "domain_id with keywords")
        return self


ModelT = TypeVar("ModelT", bound=RequestBody)


def validate_body(model: type[ModelT], policy: Policy, body: Body | None) -> ModelT | Reply:
    """Validate a body; answers validation_failed with what each wrong field expects (U24)."""
    try:
        return model.model_validate(body or {})
    except ValidationError as error:
        wrong = [
            {"field": ".".join(map(str, item["loc"])) or "body", "expected": _expected(item)}
            for item in _first(error)
        ]
        return invalid(policy, wrong)


def _first(error: ValidationError) -> list[Any]:
    """Return the errors that are shown; their context, which 10,000 take long to make, where it is wanted."""
    first: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    if any(item["type"] == "too_long" for item in first[:ERRORS_SHOWN]):
        first = error.errors(include_url=False, include_input=False)
    return first[:ERRORS_SHOWN]


def invalid(policy: Policy, errors: list[dict[str, str]]) -> Reply:
    """Answer validation_failed; each error has `field` and `expected`."""
    first = errors[0]
    detail = f"{first['field']}: expected {first['expected']}."
    return problem(policy, "validation_failed", detail, {"errors": errors})


def _expected(item: Any) -> str:
    """Put one of pydantic's errors in our words."""
    kind, context = item["type"], item.get("ctx", {})
    if kind == "expected":
        return str(item["msg"])
    if kind == "missing":
        return MISSING
    if kind == "list_type":
        return "a list"
    if kind == "too_short":
        return "at least one item"
    if kind == "too_long":
        return f"at most {context['max_length']} items"
    return "an object"
