"""Forms of one cell and of a column's name: what a text looks like, and what a name hints at in several languages."""

from __future__ import annotations

import re

from scdp.compare.amounts import parse_date, parse_duration, parse_place, parse_year
from scdp.compare.cells import split_members
from scdp.compare.languages import UNITS, nickname_groups, to_latin, word_set, words_of
from scdp.compare.words import WEAK, parse_codes_in_text

LONG_DATE = 30
YEARS = range(1500, 2100)
# Words beside the month that a date may have at most, and those that do not count.
WORDS_OF_DATE = 2
_BESIDE_DATES = word_set(
    "de del den der the of do da le st nd rd th am um at on "
    "mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday saturday sunday"
)

NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
DECIMAL = re.compile(r"[-+]?\d+\.\d+")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
URL = re.compile(
    r"(?:[a-z]+://\S+|www\.\S+|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov|io|de|uk|fr|co|eu)(?:/\S*)?)", re.IGNORECASE
)
NAME = re.compile(r"[^\W\d_]+\.?(?:[ ,'’.-]+[^\W\d_]*\.?){0,5}")
CODE = re.compile(r"(?=.*\d)[\w-]+(?:[ ./][\w-]+){0,2}")
BIBLIOGRAPHY = re.compile(r"\b(?:and|&)\b|&|[^\W\d_]{2,}, (?:[^\W\d_]\.[ -]?)+(?:,|$)", re.IGNORECASE)
LISTED = re.compile(r"\s*\[.*\]\s*")
HOUSE_NUMBER = re.compile(r"(?<![\w.])\d{1,5}[a-z]?(?![\w.])", re.IGNORECASE)
# A town and the short form of its state or country.
TOWN_AND_STATE = re.compile(r"[^\d,]+, ?[A-Z]{2,3}")
_CARDINAL_POINTS = word_set("n s e w o lat lon lng point")
_WORD = re.compile(r"[^\W\d_]+")
_CURRENCY = (
    r"(?:[a-z]{0,2}[$€£¥₹₽]|usd|eur|gbp|chf|jpy|cad|aud|sek|nok|dkk|pln|inr|cny|rmb|rub|kr|rs|euros?|dollars?|pounds?)"
)
_TIMES = r"(?:thousand|million|billion|mio|mln|mn|bn|k|m|b)"
_AMOUNT = re.compile(
    rf"(?:~|ca\.? |about )?(?P<before>{_CURRENCY}\.?\s*)?[-+]?\d[\d.,'’ ]*"
    rf"(?:\s?(?P<times>{_TIMES})\.?)?(?:\s*(?P<after>{_CURRENCY}|%))?\.?",
    re.IGNORECASE,
)
_MEASURE = re.compile(r"[-+]?\d[\d.,]*\s?([^\W\d_]+|[\"'])\.?(?:\s*/?\s*\d[\d.,]*\s?([^\W\d_]+|[\"'])\.?)?")
_PHONE = re.compile(r"\+?[\d\s()./-]{7,20}(?:\s*(?:x|ext\.?)\s*\d+)?", re.IGNORECASE)
_PHONE_MARKS = re.compile(r"^\+|^00|^\(?0|\(\d+\)|\d[-/. ]\d")
_ONLY_NUMBERS = re.compile(r"[\s\d.,eE+\[\]-]+")


def is_amount(text: str) -> bool:
    """Whether a text is a number alone, or one with a currency, a percent sign or a word such as "million"."""
    return bool(_AMOUNT.fullmatch(text))


def tells_amount(text: str) -> bool:
    """Whether a text is a number that says what it counts, so that it can be no code."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return False
    times = found["times"]
    return bool(found["before"] or found["after"] or (times and len(times) > 1))


def is_measure(text: str) -> bool:
    """Whether a text is a number with a unit of length, weight or the like, or several of these."""
    found = _MEASURE.fullmatch(text)
    return found is not None and all(unit.lower() in UNITS for unit in found.groups() if unit)


def is_phone(text: str) -> bool:
    """Whether a text has the digits and marks of a phone number."""
    return bool(_PHONE.fullmatch(text)) and 7 <= sum(map(str.isdigit, text)) <= 15


def is_marked_phone(text: str) -> bool:
    """Whether a phone number has marks that other numbers have not."""
    return is_phone(text) and bool(_PHONE_MARKS.search(text))


def is_dated(text: str) -> bool:
    """Whether a text is a date with a month and a year."""
    found = parse_date(text) if is_short_date(text) else None
    return found is not None and found[1] > 0


def is_short_date(text: str) -> bool:
    """Whether a text has the length of a date and few words beside the month."""
    words = [word for word in _WORD.findall(to_latin(text)) if word not in _BESIDE_DATES]
    return len(text) <= LONG_DATE and len(words) <= WORDS_OF_DATE


def is_year(text: str) -> bool:
    """Whether a text is a year, of two digits or more."""
    found = parse_year(text)
    return found is not None and (found < 100 or found in YEARS)


def is_place(text: str) -> bool:
    """Whether a text is a latitude and a longitude, and nothing that has a unit."""
    return parse_place(text) is not None and len(DECIMAL.findall(text)) == 2 and not _has_unit(text)


def _has_unit(text: str) -> bool:
    """Whether there are words that are no cardinal points: "8.6 x 88.3 cm" are no coordinates."""
    return not _CARDINAL_POINTS.issuperset(_WORD.findall(text.lower()))


def is_timed(text: str) -> bool:
    """Whether a text is a length of time that says its unit."""
    found = parse_duration(text) if len(text) <= LONG_DATE else None
    return found is not None and found.known


def is_key(text: str) -> bool:
    """Whether a text is one word with a digit, and no measurement."""
    one_word = not any(map(str.isspace, text)) and any(map(str.isdigit, text))
    return one_word and not DECIMAL.fullmatch(text)


def has_code(text: str) -> bool:
    """Whether there is a code with a letter inside a text."""
    return any(
        not code.startswith(WEAK) and len(code) > 3 and not code.isdigit() for code in parse_codes_in_text(text) or ()
    )


def has_given_name(text: str) -> bool:
    """Whether a word is a given name."""
    return any(map(nickname_groups, words_of(text)))


def has_capital(text: str) -> bool:
    """Whether a text begins a word with a capital."""
    return any(word[0].isupper() for word in text.split())


def is_listed(text: str) -> bool:
    """Whether a text is a list in brackets, of more than numbers."""
    return bool(LISTED.fullmatch(text)) and not _ONLY_NUMBERS.fullmatch(text)


def lists_people(text: str, separator: str) -> bool:
    """Whether every member is a name of one to five words without digits, and some member has two."""
    members = split_members(text, separator) if separator else re.split(r",|\band\b|&|;", text)
    members = [member for each in members if (member := each.strip())]
    return (
        bool(members)
        and all(len(member) <= 40 and len(member.split()) <= 5 and not re.search(r"\d", member) for member in members)
        and any(len(member.split()) > 1 for member in members)
    )


_HINTS = {
    "first name": "first firstname fname given givenname forename vorname prenom nombre voornaam christian fn middle "
    "mname",
    "last name": "last lastname lname sur surname family familyname nachname nom apellido apellidos cognome "
    "achternaam ln maiden",
    "full name": "fullname person author actor director customer patient contact kunde speaker player owner creator "
    "editor writer stars starring producer composer inventor",
    "name": "name names naam nome label",
    "artist": "artist artists singer band performer musician",
    "proper noun": "mention mentions entity noun nouns propn antecedent span head text",
    "company": "company firm employer org organisation organization business firma societe empresa manufacturer brand "
    "maker publisher vendor supplier label studio club team restaurant shop store institution affiliation university",
    "date": "date dob birth birthdate born day datum geburtsdatum naissance released release published",
    "record time": "created updated modified inserted imported timestamp crawled scraped fetched ingested "
    "synced loaded exported retrieved accessed createdat updatedat",
    "phone": "phone tel telephone mobile cell fax telefon telefono handy fon",
    "address": "address addr street strasse road adresse direccion calle rue indirizzo via straat",
    "place": "city town suburb place village county ort stadt ville ciudad region district country land "
    "birthplace location",
    "key": "zip zipcode postcode postal plz ssn soc isbn issn doi ean upc gtin asin sku vat iban bic serial model "
    "modelno mpn account passport plate orcid national siren siret lei tax",
    "code": "zip postcode postal plz zipcode ssn soc sec id isbn issn doi ean upc sku asin code number no nr num "
    "account iban serial reference ref key passport licence license model",
    "amount": "price cost amount revenue salary income total preis prix precio umsatz value fee budget turnover "
    "balance",
    "duration": "length duration runtime time dauer laufzeit playtime running",
    "people": "authors author coauthors actors cast artists editors editor directors members writers writer names "
    "creators creator stars starring producers composers performers inventors",
    "title": "title song track album book paper movie film headline product item subject venue journal "
    "booktitle conference work release",
    "venue": "venue journal booktitle conference proceedings series",
    "pages": "pages page pp seiten paginas",
    "list": "genre genres category categories tag tags keyword keywords topic topics subjects languages "
    "language countries country",
    "notes": "note notes comment comments remark remarks memo bemerkung bemerkungen kommentar observaciones remarque",
    "origin": "part split fold source dataset partition subset origin src sample",
    "latitude": "lat latitude breitengrad breite",
    "longitude": "lon lng long longitude laengengrad laenge",
    "year": "year yr jahr annee ano by",
    "month": "month bm monat mois mes mo",
    "day": "day bd tag jour dia",
}
_HINT_WORDS = {look: word_set(words) for look, words in _HINTS.items()}

_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")


def hints_of(name: str) -> frozenset[str]:
    """What the name of a column hints at.

    Example
    -------
    >>> sorted(hints_of("fname_c1")), sorted(hints_of("dateOfBirth")), sorted(hints_of("x7"))
    (['first name'], ['date'], [])
    """
    words = {to_latin(part) for part in _NAME_PARTS.findall(name)} | {re.sub(r"[^a-z]", "", to_latin(name))}
    return frozenset(look for look, known in _HINT_WORDS.items() if words & known)
