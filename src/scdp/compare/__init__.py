"""Comparisons of records: each function describes one distance (large = different) on one or several columns.

A missing or empty value gives NaN, never a large distance. Every function takes `of=` (a part of the cell:
"first_of_list", "head", "abbreviation", "digits", "year"), `clean=` (steps, in order), `missing=` (texts that stand for
a missing cell, such as "N/A"), `frequencies=` (how many records have each value elsewhere, such as names in a country:
what a shared value tells follows from these), `time=` (a column of dates: a difference counts less after years),
`half_life=` (after how many it counts half) and `name=`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import indent
from typing import TypedDict, TypeVar, Unpack

from scdp.compare.comparison import Comparison, ComparisonError, make_comparison
from scdp.compare.kinds import known_kinds, register_kind
from scdp.compare.languages import default_nicknames

__all__ = [
    "Comparison",
    "ComparisonError",
    "absolute",
    "acronym",
    "address",
    "category",
    "code",
    "codes_in_text",
    "company",
    "contained_tokens",
    "cosine",
    "count_difference",
    "date",
    "default_nicknames",
    "duration",
    "edit",
    "edit_abbreviation",
    "edit_head",
    "email",
    "exact",
    "geo",
    "jaro_winkler",
    "known_kinds",
    "longest_common_subsequence",
    "longest_common_substring",
    "make_comparison",
    "pages",
    "people_overlap",
    "person_name",
    "phone",
    "proper_noun",
    "qgram_tfidf",
    "rare_words",
    "register",
    "relative",
    "set_overlap",
    "shared_coauthors",
    "soft_tokens",
    "tfidf",
    "title",
    "token_set",
    "url",
    "venue",
    "year",
]

Columns = str | Sequence[str]


class Common(TypedDict, total=False):
    """What every comparison takes."""

    of: str | None
    clean: Sequence[str] | None
    name: str | None
    separator: str | None
    missing: Sequence[str]
    frequencies: Mapping[str, int] | None
    time: str | None
    half_life: float | None


SECTIONS = """\
Parameters
----------
{column} : str or sequence of str
    The column, or several that are read as one.
{own}**common
    `of`, `clean`, `name`, `separator`, `missing`, `frequencies`, `time` and `half_life`, as the module says.

Returns
-------
Comparison
"""
Constructor = TypeVar("Constructor", bound=Callable[..., Comparison])


def _describe(constructor: Constructor) -> Constructor:
    """Put what all constructors take and give into the docstring, before its example."""
    own = ""
    if "scale" in constructor.__annotations__:
        own += "scale : float, optional\n    What counts as 1, or for `geo` as 0.5 (in km).\n"
    if "threshold" in constructor.__annotations__:
        own += "threshold : float\n    Names whose edit distance is below it are the same.\n"
    if "order" in constructor.__annotations__:
        own += 'order : "dmy", "mdy" or None\n    How numbers that leave it open are read.\n'
    if "nicknames" in constructor.__annotations__:
        own += "nicknames : lists of names, or a mapping, optional\n    In place of our own table.\n"
    if "region" in constructor.__annotations__:
        own += 'region : str, optional\n    The country of numbers without its code, such as "GB" (`scdp[people]`).\n'
    sections = indent(SECTIONS.format(column=next(iter(constructor.__annotations__)), own=own), "    ")
    constructor.__doc__ = (constructor.__doc__ or "").replace("    Example\n", f"{sections}\n    Example\n")
    return constructor


@_describe
def edit(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Levenshtein distance divided by the longer length: [0, 1].

    Example
    -------
    >>> print(edit("name").block(["Smith"], ["Smyth"]))
    [[0.2]]
    """
    return make_comparison("edit", column, **common)


@_describe
def edit_head(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Edit distance between the last words: [0, 1].

    Example
    -------
    >>> print(edit_head("name").block(["John Smith"], ["Jon Smyth"]))
    [[0.2]]
    """
    return make_comparison("edit_head", column, **common)


@_describe
def edit_abbreviation(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Edit distance between the abbreviations ("George W. Bush" is GWB, "IBM" stays IBM): [0, 1].

    Example
    -------
    >>> print(edit_abbreviation("name").block(["International Business Machines"], ["IBM"]))
    [[0.]]
    """
    return make_comparison("edit_abbreviation", column, **common)


@_describe
def longest_common_substring(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - length of the longest common run of characters / longer length: [0, 1].

    Example
    -------
    >>> print(longest_common_substring("name").block(["databases"], ["database"]))
    [[0.11111111]]
    """
    return make_comparison("longest_common_substring", column, **common)


@_describe
def longest_common_subsequence(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - length of the longest common subsequence / longer length: [0, 1].

    Example
    -------
    >>> print(longest_common_subsequence("name").block(["databases"], ["data base"]))
    [[0.11111111]]
    """
    return make_comparison("longest_common_subsequence", column, **common)


@_describe
def jaro_winkler(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - Jaro-Winkler similarity (prefix weight 0.1, boost above 0.7): [0, 1].

    Example
    -------
    >>> print(jaro_winkler("name").block(["Martha"], ["Marhta"]))
    [[0.03888889]]
    """
    return make_comparison("jaro_winkler", column, **common)


@_describe
def token_set(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - words in both / words in either (Jaccard): [0, 1].

    Example
    -------
    >>> print(token_set("title").block(["machine learning"], ["learning machines"]))
    [[0.6666666]]
    """
    return make_comparison("token_set", column, **common)


@_describe
def rare_words(column: Columns, **common: Unpack[Common]) -> Comparison:
    """As `token_set`, but a word counts by log(1 + N / records that have it): [0, 1].

    Example
    -------
    >>> print(rare_words("title").block(["the odyssey"], ["the iliad"]))
    [[0.7601875]]
    """
    return make_comparison("rare_words", column, **common)


@_describe
def exact(column: Columns, **common: Unpack[Common]) -> Comparison:
    """0 if the cleaned values are the same, else 1.

    Example
    -------
    >>> print(exact("city").block(["Bonn "], ["bonn"]))
    [[0.]]
    """
    return make_comparison("exact", column, **common)


@_describe
def absolute(column: Columns, scale: float | None = None, **common: Unpack[Common]) -> Comparison:
    """|difference| / scale of the first number in each cell: [0, inf), not capped.

    Without a scale, `Spec.fit` learns one (the 95th percentile over pairs of training records) and keeps it.

    Example
    -------
    >>> print(absolute("year", scale=10).block(["1997"], ["2002"]))
    [[0.5]]
    """
    return make_comparison("absolute", column, scale=scale, **common)


@_describe
def count_difference(column: Columns, **common: Unpack[Common]) -> Comparison:
    """|difference| of how common the two values are, as shares of the records given: [0, 1].

    Example
    -------
    >>> print(count_difference("city").pairs(["Bonn", "Bonn", "Ulm"], [0], [2]))
    [0.33333334]
    """
    return make_comparison("count_difference", column, **common)


@_describe
def shared_coauthors(column: Columns, threshold: float = 0.1, **common: Unpack[Common]) -> Comparison:
    """1 / (1 + names shared), names being shared when their edit distance is below the threshold: (0, 1].

    `separator` splits the list; without one it is read as a bibliography writes authors.

    Example
    -------
    >>> print(shared_coauthors("authors").block(["A. Smith and B. Jones"], ["B. Jones and C. Doe"]))
    [[0.5]]
    """
    return make_comparison("shared_coauthors", column, threshold=threshold, **common)


@_describe
def person_name(
    column: Columns,
    nicknames: Iterable[Iterable[str]] | Mapping[str, Iterable[str]] | None = None,
    **common: Unpack[Common],
) -> Comparison:
    """Words of a name matched with words: [0, 1].

    Titles in front and particles inside are dropped, order does not count, letters of other alphabets are written in
    Latin ones. An initial costs 0.1, a nickname and "ue" for an umlaut 0.05, other words 2.5 times their Jaro-Winkler
    distance, at most 1, or 0.2 where they sound alike; the sum is divided by the fewer words, and 0.2 of the share of
    words that only one has is added. "Mr" and "Mrs" are at least 0.5 apart.

    Example
    -------
    >>> print(person_name("name").block(["Robert Smith"], ["Smith, Bob"]))
    [[0.025]]
    """
    return make_comparison("person_name", column, nicknames=nicknames, **common)


@_describe
def company(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Words of a company's name matched with words, without legal forms: [0, 1]. An acronym is at most 0.2 away.

    Example
    -------
    >>> print(company("firm").block(["Acme Inc."], ["ACME Limited"]))
    [[0.]]
    """
    return make_comparison("company", column, **common)


@_describe
def venue(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Words of a journal or conference, which may be shortened, at 0.1; an acronym is at most 0.2 away: [0, 1].

    Example
    -------
    >>> print(venue("journal").block(["J. Mach. Learn. Res."], ["Journal of Machine Learning Research"]))
    [[0.1]]
    """
    return make_comparison("venue", column, **common)


@_describe
def title(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Words of a title matched with words, without track numbers, guests and what brackets tell: [0, 1].

    A version ("live") that one title tells of adds 0.15; two versions, or two numbers ("II" is 2), are at least 0.4.

    Example
    -------
    >>> print(title("song").block(["Yesterday (live)"], ["Yesterday"]))
    [[0.15]]
    """
    return make_comparison("title", column, **common)


@_describe
def proper_noun(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Names in texts, without titles and determiners: [0, 1].

    0.05 an acronym, 0.12 the last name and the whole, 0.15 the first, 0.25 one word more, 0.4 words that are near,
    0.6 words of one in the other, 0.7 a word for a sort of thing more ("Durham", "Durham University"), 0.75 and more
    for others; "Mr" and "Mrs" are at least 0.9 apart.

    Example
    -------
    >>> print(proper_noun("mention").block(["President Obama"], ["Barack Obama"]))
    [[0.12]]
    """
    return make_comparison("proper_noun", column, **common)


@_describe
def duration(column: Columns, **common: Unpack[Common]) -> Comparison:
    """|difference| / the longer; "3:45", "3m 45sec", minutes, seconds and milliseconds: [0, 1].

    Example
    -------
    >>> print(duration("length").block(["3:45"], ["225 s"]))
    [[0.]]
    """
    return make_comparison("duration", column, **common)


@_describe
def year(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Years apart / (years apart + 5); "'97" is the year 97 of any century: [0, 1).

    Example
    -------
    >>> print(year("year").block(["1997"], ["'98"]))
    [[0.16666667]]
    """
    return make_comparison("year", column, **common)


@_describe
def pages(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Pages of an article: 0.1 one without its last page, 0.3 another last page, 0.5 the same last page: [0, 1].

    Example
    -------
    >>> print(pages("pages").block(["350-8"], ["pp. 350--358"]))
    [[0.]]
    """
    return make_comparison("pages", column, **common)


@_describe
def phone(column: Columns, region: str | None = None, **common: Unpack[Common]) -> Comparison:
    """0 where the shorter number ends the longer; 0.1 the last 7 digits, 0.2 one digit off, 0.8 the area: [0, 1].

    With a region, whole numbers are compared with the code of their country.

    Example
    -------
    >>> print(phone("tel").block(["+1 (212) 555-0123"], ["2125550123"]))
    [[0.]]
    """
    return make_comparison("phone", column, region=region, **common)


@_describe
def email(column: Columns, **common: Unpack[Common]) -> Comparison:
    """0.8 x edits before "@" + 0.2 x edits in the domain; dots, plus-tags, capitals do not count: [0, 1].

    Example
    -------
    >>> print(email("mail").block(["Jo.Smith@mail.com"], ["josmith+news@mail.com"]))
    [[0.]]
    """
    return make_comparison("email", column, **common)


@_describe
def url(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Half by the edits in the host, half by those in the rest, without scheme, "www" and tracking: [0, 1].

    Example
    -------
    >>> print(url("site").block(["https://www.acme.com/a"], ["acme.com/b"]))
    [[0.25]]
    """
    return make_comparison("url", column, **common)


@_describe
def address(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Mean of the parts both have: words (0.5), house number (0.3), unit (0.1), postcode (0.1): [0, 1].

    Example
    -------
    >>> print(address("address").block(["12 Main St"], ["12 Main Street"]))
    [[0.]]
    """
    return make_comparison("address", column, **common)


@_describe
def code(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Codes without marks: 0.1 where one ends the other, 0.2 one edit, else 1 - half the same start: [0, 1].

    Example
    -------
    >>> print(code("isbn").block(["ISBN 0-306-40615-2"], ["0306406152"]))
    [[0.1]]
    """
    return make_comparison("code", column, **common)


@_describe
def codes_in_text(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Codes inside long texts: up to 0.5 where one is shared, 0 if it is rare; 1 where rare ones differ: [0, 1].

    Missing where a text has no code. How rare a code is, is counted over the records at hand.

    Example
    -------
    >>> print(codes_in_text("text").block(["camera DSC-W55 black"], ["Sony DSC-W55"]))
    [[0.5]]
    """
    return make_comparison("codes_in_text", column, **common)


@_describe
def relative(column: Columns, **common: Unpack[Common]) -> Comparison:
    """|difference| / the larger amount; currency signs and thousands are understood: [0, 1].

    Example
    -------
    >>> print(relative("price").block(["$1,000"], ["900"]))
    [[0.1]]
    """
    return make_comparison("relative", column, **common)


@_describe
def category(column: Columns, **common: Unpack[Common]) -> Comparison:
    """0 for the same category, else 1; yes and true, m and male are the same: {0, 1}.

    Example
    -------
    >>> print(category("sex").block(["m"], ["male"]))
    [[0.]]
    """
    return make_comparison("category", column, **common)


@_describe
def tfidf(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - cosine of the words, each weighed by log(1 + N / records that have it): [0, 1].

    Example
    -------
    >>> print(tfidf("title").block(["machine learning"], ["learning machines"]))
    [[0.7152706]]
    """
    return make_comparison("tfidf", column, **common)


@_describe
def qgram_tfidf(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - cosine of the runs of three letters, each weighed by log(1 + N / records that have it): [0, 1].

    Example
    -------
    >>> print(qgram_tfidf("title").block(["machine"], ["machines"]))
    [[0.38061747]]
    """
    return make_comparison("qgram_tfidf", column, **common)


@_describe
def soft_tokens(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - share of the words found in the other, near ones too, weighed by rarity; the mean of both ways: [0, 1].

    Example
    -------
    >>> print(soft_tokens("title").block(["machine learning"], ["learning machines"]))
    [[0.01532868]]
    """
    return make_comparison("soft_tokens", column, **common)


@_describe
def contained_tokens(column: Columns, **common: Unpack[Common]) -> Comparison:
    """As `soft_tokens`, but by the text that has more of its words in the other: [0, 1].

    Example
    -------
    >>> print(contained_tokens("title").block(["learning"], ["machine learning"]))
    [[0.]]
    """
    return make_comparison("contained_tokens", column, **common)


@_describe
def set_overlap(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - the mean of the shares of either list that the other has: [0, 1]. `separator` splits the list.

    Example
    -------
    >>> print(set_overlap("tags", separator=",").block(["rock, pop"], ["pop, jazz"]))
    [[0.5]]
    """
    return make_comparison("set_overlap", column, **common)


@_describe
def people_overlap(column: Columns, **common: Unpack[Common]) -> Comparison:
    """As `set_overlap` for lists of people, each by the first initial and the last name: [0, 1].

    Example
    -------
    >>> print(people_overlap("authors", separator=";").block(["A. Smith; B. Jones"], ["Bob Jones; C. Doe"]))
    [[0.5]]
    """
    return make_comparison("people_overlap", column, **common)


@_describe
def acronym(column: Columns, **common: Unpack[Common]) -> Comparison:
    """0 for the same letters, 0.1 where one is the acronym of the other, 0.4 for the same acronym, else 1: [0, 1].

    Example
    -------
    >>> print(acronym("venue").block(["ACM"], ["Association for Computing Machinery"]))
    [[0.1]]
    """
    return make_comparison("acronym", column, **common)


@_describe
def date(column: Columns, order: str | None = None, **common: Unpack[Common]) -> Comparison:
    """Levels: 0 the same, 0.1 day and month swapped, 0.15 as far as known, 0.2 one digit off, ...: [0, 1].

    Then 0.3 within a month, 0.45 for one part off, 0.6 the same year, 0.8 the next, else 1; whole dates at
    most 0.4 + 0.075 a digit in which they differ. Formats may be mixed.
    `order` ("dmy" or "mdy") is for numbers that leave it open; without it, `Spec.fit` learns it from those that do not.

    Example
    -------
    >>> print(date("born", order="dmy").block(["1 Feb 1990"], ["01/02/1990"]))
    [[0.]]
    """
    return make_comparison("date", column, order=order, **common)


@_describe
def cosine(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - cosine between two vectors of your own, a list of numbers a cell such as "[0.1, 0.2]"; at most 1: [0, 1].

    Example
    -------
    >>> print(cosine("embedding").block(["[1, 0]"], ["[3, 4]"]))
    [[0.4]]
    """
    return make_comparison("cosine", column, **common)


@_describe
def geo(columns: Columns, scale: float = 10.0, **common: Unpack[Common]) -> Comparison:
    """km / (km + scale) between two places; columns of latitude and longitude, or one with both: [0, 1).

    Example
    -------
    >>> print(geo("place").block(["50.7, 7.1"], ["50.9, 6.9"]))
    [[0.7245819]]
    """
    return make_comparison("geo", columns, scale=scale, **common)


def register(name: str, function: Callable[[str, str], float]) -> Callable[..., Comparison]:
    """Make your own comparison of two cleaned texts, and get its constructor; spec files know it by `name`.

    Parameters
    ----------
    name : str
        Letters, digits and underscores; no built-in kind has it.
    function : callable
        The distance of two cleaned texts, which must be symmetric. It is called from Python for the pairs of distinct
        values: the slow path.

    Returns
    -------
    callable
        The constructor.

    Example
    -------
    >>> by_length = register("by_length", lambda one, other: abs(len(one) - len(other)))
    >>> print(by_length("name").block(["Ann"], ["Annabel"]))
    [[4.]]
    """
    register_kind(name, function)

    def constructor(column: Columns, **common: Unpack[Common]) -> Comparison:
        return make_comparison(name, column, **common)

    return constructor
