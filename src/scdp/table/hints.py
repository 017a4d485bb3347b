"""What the name of a column hints at, in several languages."""

from __future__ import annotations

import re

from scdp.compare.languages.letters import to_latin, word_set

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
