"""The kinds of comparison: what each takes from a cell, its options and range, and who scores it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from scdp.compare import amounts, content, names, words
from scdp.compare.cells import Codes
from scdp.compare.languages import NameGroups, parse_amount
from scdp.compare.scorers import (
    CosineScorer,
    ExactScorer,
    FunctionScorer,
    NumberScorer,
    Scorer,
    SharedNamesScorer,
    SubstringScorer,
    TokenSetScorer,
    parse_vector,
    rapidfuzz_scorer,
)
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.compare.comparison import Comparison
    from scdp.compare.prepared import Prepared

# What one cell becomes: a cleaned text, a number, how common the text is, the names of a list, or parts of its own.
Value = Literal["text", "number", "share", "names", "parts"]
MakeScorer = Callable[["Prepared"], Scorer]
Parse = Callable[["Comparison", Sequence[str]], list[Any]]
Option = float | str | NameGroups | None


@dataclass(frozen=True)
class Kind:
    """`part` is a transform the kind always applies; `options` are those it has, with their defaults.

    `parse` gives the parts of texts (None = missing), `parse_many` the distinct ones of very many texts and the place
    of each text among them (None if it cannot, or not with these settings), `tokens` what of a value others may share;
    without it the value is shared as a whole. With `forms`, tokens are several forms of the same, and the rarest one
    shared counts alone.
    `levels` are phrases for people, each with the largest distance it is for.
    """

    value: Value
    scorer: MakeScorer
    range: str = "[0, 1]"
    part: str | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    parse: Parse | None = None
    parse_many: Callable[[Comparison, Sequence[str]], tuple[Codes, Sequence[Any]] | None] | None = None
    tokens: Callable[[Any], Iterable[Hashable]] | None = None
    forms: bool = False
    levels: tuple[tuple[float, str], ...] = ()

    def in_words(self, distance: float) -> str:
        """What a distance says of two values."""
        return next((phrase for largest, phrase in self.levels if distance <= largest), "different")


def _scaled_numbers(prepared: Prepared) -> Scorer:
    comparison = prepared.comparison
    if comparison.scale is None:
        raise InputError(f"comparison {comparison.name!r} has no scale yet: give scale=... or use spec.fit(records)")
    return NumberScorer(prepared.vocabulary, comparison.scale)


def _shared_names(prepared: Prepared) -> Scorer:
    threshold = prepared.comparison.threshold
    assert threshold is not None, "the kind has a default threshold"
    return SharedNamesScorer(prepared.vocabulary, threshold)


def _places(prepared: Prepared) -> Scorer:
    scale = prepared.comparison.scale
    assert scale is not None, "the kind has a default scale"
    return amounts.PlaceScorer(prepared.vocabulary, scale)


def _each(parse: Callable[[str], Any]) -> Parse:
    return lambda comparison, texts: list(map(parse, texts))


def _each_list(parse: Callable[[str, str | None], Any]) -> Parse:
    return lambda comparison, texts: [parse(text, comparison.separator) for text in texts]


def _dates(comparison: Comparison, texts: Sequence[str]) -> list[Any]:
    order = comparison.order or amounts.learn_order(texts)
    return [amounts.parse_date(text, order) for text in texts]


def _phones(comparison: Comparison, texts: Sequence[str]) -> list[Any]:
    region = comparison.region
    return [amounts.parse_phone(text) if region is None else amounts.parse_phone_of(text, region) for text in texts]


def _many_phones(comparison: Comparison, texts: Sequence[str]) -> tuple[Codes, Sequence[Any]] | None:
    return amounts.parse_phones(texts) if comparison.region is None else None


def _levels(what: str, *phrases: tuple[float, str]) -> tuple[tuple[float, str], ...]:
    return ((0.0, f"the same {what}"), *phrases, (1.0, f"another {what}"))


_EDIT = partial(rapidfuzz_scorer, "Levenshtein")
_WORDS = _levels("words", (0.2, "nearly the same words"), (0.5, "many words in common"), (0.99, "few words in common"))

_TEXT = _levels("text", (0.15, "nearly the same text"), (0.4, "similar texts"))

BUILT_IN: dict[str, Kind] = {
    "edit": Kind("text", _EDIT, levels=_TEXT),
    "edit_head": Kind("text", _EDIT, part="head", levels=_levels("last word", (0.3, "similar last words"))),
    "edit_abbreviation": Kind(
        "text", _EDIT, part="abbreviation", levels=_levels("abbreviation", (0.5, "similar abbreviations"))
    ),
    "longest_common_substring": Kind(
        "text",
        lambda prepared: SubstringScorer(prepared.vocabulary),
        levels=_levels("text", (0.6, "a long part in common"), (0.99, "a short part in common")),
    ),
    "longest_common_subsequence": Kind("text", partial(rapidfuzz_scorer, "LCSseq"), levels=_TEXT),
    "jaro_winkler": Kind("text", partial(rapidfuzz_scorer, "JaroWinkler"), levels=_TEXT),
    "token_set": Kind("text", lambda prepared: TokenSetScorer(prepared.vocabulary), tokens=str.split, levels=_WORDS),
    "rare_words": Kind(
        "text", lambda prepared: words.rare_words_scorer(prepared.tokens), tokens=str.split, levels=_WORDS
    ),
    "exact": Kind("text", lambda prepared: ExactScorer(), range="{0, 1}", levels=_levels("value")),
    "absolute": Kind(
        "number",
        _scaled_numbers,
        range="[0, inf), 1 = scale",
        options={"scale": None},
        levels=((0.0, "the same number"), (0.1, "near numbers"), (0.5, "similar numbers")),
    ),
    "count_difference": Kind(
        "share",
        lambda prepared: NumberScorer(prepared.shares(), 1.0),
        levels=((0.01, "values about as common"), (1.0, "a common value and a rare one")),
    ),
    "shared_coauthors": Kind(
        "names",
        _shared_names,
        range="(0, 1]",
        options={"separator": None, "threshold": 0.1},
        tokens=tuple,
        levels=((0.34, "several names in common"), (0.5, "a name in common"), (1.0, "no name in common")),
    ),
    "person_name": Kind(
        "parts",
        lambda prepared: words.PersonScorer(prepared.vocabulary, prepared.comparison.nicknames),
        options={"nicknames": None},
        parse=_each(names.parse_person_name),
        parse_many=lambda comparison, texts: names.parse_person_names(texts),
        tokens=lambda name: name.words,
        levels=_levels(
            "name",
            (0.12, "names that agree, but for initials, nicknames or words left out"),
            (0.35, "nearly the same name"),
            (0.75, "names that agree in part"),
        ),
    ),
    "company": Kind(
        "parts",
        lambda prepared: words.WordsScorer(prepared.vocabulary),
        parse=_each(names.parse_company),
        tokens=tuple,
        levels=_levels("company", (0.25, "nearly the same company"), (0.75, "companies that agree in part")),
    ),
    "venue": Kind(
        "parts",
        lambda prepared: words.VenueScorer(prepared.vocabulary),
        parse=_each(names.parse_venue),
        tokens=lambda venue: venue.words,
        levels=_levels("venue", (0.2, "nearly the same venue, or an acronym"), (0.75, "venues that agree in part")),
    ),
    "title": Kind(
        "parts",
        lambda prepared: content.TitleScorer(prepared.vocabulary),
        parse=_each(content.parse_title),
        tokens=lambda title: title.words,
        levels=_levels(
            "title",
            (0.2, "nearly the same title, or another version"),
            (0.5, "titles that agree in part"),
            (0.99, "titles with little in common"),
        ),
    ),
    "proper_noun": Kind(
        "parts",
        lambda prepared: content.NounScorer(prepared.vocabulary),
        parse=_each(content.parse_proper_noun),
        tokens=lambda noun: noun.words,
        levels=_levels(
            "name",
            (0.05, "one is the acronym of the other"),
            (0.15, "the last or the first name, and the whole"),
            (0.25, "a name, and one with a word more"),
            (0.4, "names that are written alike"),
            (0.6, "the words of one are in the other"),
            (0.7, "the name of another sort of thing"),
        ),
    ),
    "date": Kind(
        "parts",
        lambda prepared: amounts.DateScorer(prepared.vocabulary),
        parse=_dates,
        options={"order": None},
        levels=_levels(
            "date",
            (0.1, "day and month swapped"),
            (0.15, "dates that agree as far as they go"),
            (0.2, "dates with one digit off"),
            (0.3, "dates within a month"),
            (0.45, "dates with one part off"),
            (0.6, "dates with two digits off, or of the same year"),
            (0.8, "dates with some digits in common, or of neighbouring years"),
        ),
    ),
    "phone": Kind(
        "parts",
        lambda prepared: amounts.PhoneScorer(prepared.vocabulary),
        options={"region": None},
        parse=_phones,
        parse_many=_many_phones,
        tokens=amounts.phone_tokens,
        levels=_levels(
            "phone",
            (0.1, "phones with the same last digits"),
            (0.2, "phones with one digit off"),
            (0.8, "phones of the same area"),
        ),
    ),
    "email": Kind(
        "parts",
        lambda prepared: content.TwoPartScorer(prepared.vocabulary, main=0, weight=0.8),
        parse=_each(content.parse_email),
        tokens=content.email_tokens,
        levels=_levels("email", (0.2, "nearly the same email, or the same at another domain"), (0.4, "similar emails")),
    ),
    "url": Kind(
        "parts",
        lambda prepared: content.TwoPartScorer(prepared.vocabulary, main=0, weight=0.5),
        parse=_each(content.parse_url),
        tokens=content.url_tokens,
        forms=True,
        levels=_levels("page", (0.5, "pages of the same site"), (0.75, "similar sites")),
    ),
    "address": Kind(
        "parts",
        lambda prepared: content.AddressScorer(prepared.vocabulary),
        parse=_each(content.parse_address),
        tokens=content.address_tokens,
        levels=_levels("address", (0.15, "nearly the same address"), (0.6, "addresses that agree in part")),
    ),
    "code": Kind(
        "parts",
        lambda prepared: words.CodeScorer(prepared.vocabulary),
        parse=_each(words.parse_code),
        tokens=words.code_tokens,
        levels=_levels(
            "code",
            (0.1, "one code ends with the other"),
            (0.2, "codes with one letter or digit off"),
            (0.8, "codes with the same start"),
        ),
    ),
    "codes_in_text": Kind(
        "parts",
        lambda prepared: words.CodesInTextScorer(prepared.tokens),
        parse=_each(words.parse_codes_in_text),
        tokens=tuple,
        forms=True,
        levels=(
            (0.2, "a rare code in common"),
            (0.5, "a code in common that others have too, or a part of one"),
            (0.8, "no code in common, but none is rare"),
            (1.0, "codes that contradict each other"),
        ),
    ),
    "relative": Kind(
        "parts",
        lambda prepared: amounts.RelativeScorer(prepared.vocabulary),
        parse=_each(parse_amount),
        levels=_levels("amount", (0.1, "amounts within a tenth"), (0.5, "amounts within a half")),
    ),
    "duration": Kind(
        "parts",
        lambda prepared: amounts.DurationScorer(prepared.vocabulary),
        parse=_each(amounts.parse_duration),
        levels=_levels("length", (0.05, "lengths that agree but for rounding or units"), (0.2, "similar lengths")),
    ),
    "year": Kind(
        "parts",
        lambda prepared: amounts.YearScorer(prepared.vocabulary),
        range="[0, 1), 0.5 = 5 years",
        parse=_each(amounts.parse_year),
        levels=_levels("year", (0.17, "years next to each other"), (0.5, "years at most five apart")),
    ),
    "pages": Kind(
        "parts",
        lambda prepared: amounts.PagesScorer(prepared.vocabulary),
        parse=_each(amounts.parse_pages),
        levels=_levels("pages", (0.1, "the same first page"), (0.3, "pages that begin alike"), (0.5, "the same end")),
    ),
    "geo": Kind(
        "parts",
        _places,
        range="[0, 1), 0.5 = scale",
        parse=_each(amounts.parse_place),
        options={"scale": 10.0},
        levels=_levels("place", (0.1, "places next to each other"), (0.5, "places within the scale")),
    ),
    "cosine": Kind(
        "parts",
        lambda prepared: CosineScorer(prepared.vocabulary),
        parse=_each(parse_vector),
        levels=_levels("direction", (0.1, "nearly the same direction"), (0.5, "similar directions")),
    ),
    "category": Kind(
        "parts",
        lambda prepared: ExactScorer(),
        range="{0, 1}",
        parse=_each(amounts.parse_category),
        levels=_levels("category"),
    ),
    "tfidf": Kind("text", lambda prepared: words.tfidf_scorer(prepared.tokens), tokens=str.split, levels=_WORDS),
    "qgram_tfidf": Kind(
        "text",
        lambda prepared: words.tfidf_scorer(prepared.tokens),
        tokens=words.qgrams,
        levels=_levels("text", (0.2, "nearly the same text"), (0.6, "similar texts")),
    ),
    "soft_tokens": Kind(
        "text",
        lambda prepared: words.SoftTokensScorer(prepared.tokens, contained=False),
        tokens=str.split,
        levels=_WORDS,
    ),
    "contained_tokens": Kind(
        "text",
        lambda prepared: words.SoftTokensScorer(prepared.tokens, contained=True),
        tokens=str.split,
        levels=(
            (0.05, "the words of one are in the other"),
            (0.5, "most words of one are in the other"),
            (0.99, "few words in common"),
            (1.0, "no word in common"),
        ),
    ),
    "set_overlap": Kind(
        "parts",
        lambda prepared: words.overlap_scorer(prepared.tokens),
        parse=_each_list(words.parse_members),
        tokens=tuple,
        options={"separator": None},
        levels=_levels("list", (0.5, "lists with much in common"), (0.99, "lists with little in common")),
    ),
    "people_overlap": Kind(
        "parts",
        lambda prepared: words.overlap_scorer(prepared.tokens),
        parse=_each_list(words.parse_people),
        tokens=tuple,
        options={"separator": None},
        levels=_levels("people", (0.5, "many people in common"), (0.99, "few people in common")),
    ),
    "acronym": Kind(
        "parts",
        lambda prepared: words.AcronymScorer(prepared.vocabulary),
        parse=_each(words.parse_acronym),
        levels=_levels("letters", (0.1, "one is the acronym of the other"), (0.4, "the same acronym")),
    ),
}

_registered: dict[str, Kind] = {}


def known_kinds() -> dict[str, Kind]:
    """Built-in kinds and the user's own, by name.

    Returns
    -------
    dict

    Example
    -------
    >>> known_kinds()["edit"].range
    '[0, 1]'
    """
    return {**BUILT_IN, **_registered}


def register_kind(name: str, function: Callable[[str, str], float]) -> None:
    """Make a function of two cleaned texts a kind; registering a name again replaces it."""
    if name in BUILT_IN:
        raise InputError(f"comparison {name!r} is built in: register yours under another name")
    if not name.isidentifier():
        raise InputError(f"comparison name {name!r} must be letters, digits and underscores")

    def make(prepared: Prepared) -> Scorer:
        return FunctionScorer(prepared.vocabulary, name, function)

    _registered[name] = Kind("text", make, range="as the function gives")
