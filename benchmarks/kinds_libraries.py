"""Libraries for names and phones beside our own tables: which tells more, on small tables of hard cases and on data.

python -m benchmarks.kinds_libraries

Of a table: how many of its pairs are nearer than all but one in a hundred of its crossed pairs, which are strangers; of
names with titles and suffixes, how many are read as they should be. Of data: what a pair of differing words of one
cluster tells against strangers, in nats, by the levels of distance that evidence has. It needs
`pip install 'scdp[people,bench]'`.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path

import jellyfish
import nicknames
import numpy as np
from nameparser import HumanName
from rapidfuzz.distance import JaroWinkler

from benchmarks.kinds_libraries_cases import ALPHABETS, NICKNAMES, PHONES, SOUNDS, TITLED, TITLED_LATER, rows
from scdp import compare
from scdp.compare import Comparison, names
from scdp.compare.languages import number_groups, read_groups, sound_keys, words_of
from scdp.compare.names import PersonName, parse_person_name
from scdp.linkage.levels import EDGES, N_LEVELS
from scdp.table.readers import read_records

STRANGERS = 0.01
N_STRANGERS = 200_000
Pair = tuple[str, str]
Same = Callable[[str, str], bool]


def main() -> None:
    print("anyascii: names in other alphabets, written in Latin letters")
    pairs = [(one, other) for one, other in rows(ALPHABETS)]
    for label, clean in (("our letters", ()), ("anyascii", ("latin",))):
        print(f"  {label:26} {count_near(compare.person_name('x', clean=clean), pairs)} of {len(pairs)} found")
    print("phonenumbers: numbers with and without the code of their country")
    tell_phones()
    print("nameparser: titles, suffixes and degrees")
    tell_titles()
    print("nicknames: short forms of English names")
    tell_nicknames()
    print("jellyfish: surnames that are said alike")
    tell_sounds()


def count_near(comparison: Comparison, pairs: Sequence[Pair]) -> int:
    """How many pairs are nearer than all but a few of the crossed ones."""
    square = comparison.block([one for one, _ in pairs], [other for _, other in pairs])
    same = np.diag(square)
    others = square[~np.eye(len(pairs), dtype=bool)]
    return int((same < np.quantile(others, STRANGERS)).sum())


def tell_phones() -> None:
    cases = rows(PHONES)
    for label, region in (("our digits", False), ("phonenumbers", True)):
        found = {"1": [], "0": []}
        for country, one, other, same in cases:
            comparison = compare.phone("x", region=country if region else None)
            found[same].append(float(comparison.block([one], [other])[0, 0]))
        equal = sum(distance == 0.0 for distance in found["1"])
        apart = sum(distance > 0.0 for distance in found["0"])
        near = sum(distance < 0.15 for distance in found["0"])
        told = f"{equal} of {len(found['1'])} same at 0; {apart} of {len(found['0'])} others above it, {near} at 0.1"
        print(f"  {label:26} {told}")
    same, others = pairs_of([*columns("crm/records.csv", "cluster_id", "phone")], differing=False)
    for label, comparison in (("our digits", compare.phone("x")), ("phonenumbers", compare.phone("x", region="GB"))):
        told = nats(*(distances_of(comparison, pairs, str) for pairs in (same, others)))
        print(f"  {'crm':20} {label:26} {told:.3f} nats a pair")


def tell_titles() -> None:
    numbers = {"": 0, "jr": 1, "sr": 2, "ii": 3, "iii": 4}
    for label, parse in (("our titles", parse_person_name), ("nameparser", parse_by_library)):
        for number, table in enumerate((TITLED, TITLED_LATER), start=1):
            right = 0
            for text, words, suffix in rows(table):
                found = parse(text)
                wanted = sorted(words.split()), numbers[suffix]
                right += found is not None and (sorted(found.words), found.suffix) == wanted
            print(f"  {label:26} {right} of {len(rows(table))} names of table {number} read as they should be")
        start = time.process_time()
        for text, *_ in rows(TITLED) * 20:
            parse(text)
        print(f"  {label:26} {(time.process_time() - start) / len(rows(TITLED)) / 20 * 1e6:.0f} microseconds a name")
    mentions = [
        (cluster, name)
        for cluster, name, sort in columns("gum-propn/mentions.csv", "cluster_id", "name", "etype")
        if sort == "person"
    ]
    people = [
        (cluster, f"{first} {last}")
        for cluster, first, last in columns("crm/records.csv", "cluster_id", "first_name", "last_name")
    ]
    for name, found in (("gum-propn, people", mentions), ("crm", people)):
        same, others = pairs_of(found, differing=False)
        for label, parse in (("our titles", str), ("nameparser", plain_name)):
            told = nats(*(distances_of(compare.person_name("x"), pairs, parse) for pairs in (same, others)))
            print(f"  {name:20} {label:26} {told:.3f} nats a pair")


def parse_by_library(text: str) -> PersonName | None:
    """The name as nameparser has it, without the particles that ours drops."""
    found = HumanName(text)
    whole = f"{found.first} {found.middle} {found.last}"
    kept = names._without_particles(words_of(whole), whole)
    suffix = next((names._SUFFIXES[word] for word in words_of(found.suffix) if word in names._SUFFIXES), 0)
    return PersonName(tuple(kept), 0, suffix) if kept else None


def plain_name(text: str) -> str:
    """A name without what nameparser takes for titles and degrees, but with those that tell people apart."""
    found = parse_by_library(text)
    suffix = {0: "", 1: " Jr", 2: " Sr", 3: " II", 4: " III", 5: " IV"}
    return text if found is None else " ".join(found.words) + suffix[found.suffix]


def tell_nicknames() -> None:
    pairs = [tuple(pair.split()) for line in rows(NICKNAMES) for pair in line]
    ours = number_groups()
    short: dict[str, list[str]] = defaultdict(list)
    for full, _, name in nicknames.name_triplets():
        short[full].append(name)
    theirs = number_groups(
        read_groups({full: each for full, each in short.items() if " ".join([full, *each]).replace(" ", "").isalnum()})
    )
    tables = {"our table": [ours], "nicknames": [theirs], "both": [ours, theirs]}
    print(f"  our table has {len(ours):,} names, nicknames {len(theirs):,}")
    for label, groups in tables.items():
        same = in_groups(groups)
        print(f"  {label:26} {sum(same(one, other) for one, other in pairs)} of {len(pairs)} found")
    for name, cells in first_names().items():
        within, between = pairs_of(cells)
        for label, groups in {"no table": [], **tables}.items():
            print(f"  {name:20} {label:26} {worth(within, between, in_groups(groups), 0.05):.3f} nats a pair")


def in_groups(tables: Sequence[dict[str, frozenset[int]]]) -> Same:
    nothing: frozenset[int] = frozenset()
    return lambda one, other: any(table.get(one, nothing) & table.get(other, nothing) for table in tables)


def tell_sounds() -> None:
    pairs = [tuple(words_of(f"{one} {other}")) for one, other in rows(SOUNDS)]
    keys: dict[str, Callable[[str], str]] = {
        "our key": lambda word: sound_keys([word])[0],
        "metaphone": jellyfish.metaphone,
        "nysiis": jellyfish.nysiis,
        "match rating": jellyfish.match_rating_codex,
    }
    for label, key in keys.items():
        print(f"  {label:26} {sum(alike(key)(one, other) for one, other in pairs)} of {len(pairs)} found")
    for name, cells in surnames().items():
        within, between = pairs_of(cells)
        print(f"  {name:20} {'no key':26} {worth(within, between, lambda one, other: False, 0.2):.3f} nats a pair")
        for label, key in keys.items():
            print(f"  {name:20} {label:26} {worth(within, between, alike(key), 0.2):.3f} nats a pair")


def alike(key: Callable[[str], str]) -> Same:
    kept: dict[str, str] = {}

    def key_of(word: str) -> str:
        if word not in kept:
            kept[word] = key(word) if word.isalpha() else ""
        return kept[word]

    return lambda one, other: bool(key_of(one)) and key_of(one) == key_of(other)


def first_names() -> dict[str, list[tuple[str, str]]]:
    return {
        "historical": [*columns("historical-50k/historical_5k.csv", "cluster", "first_name")],
        "febrl3": [*columns("febrl3/records.csv", "cluster_id", "given_name")],
        "crm": [*columns("crm/records.csv", "cluster_id", "first_name")],
    }


def surnames() -> dict[str, list[tuple[str, str]]]:
    return {
        "historical": [*columns("historical-50k/historical_5k.csv", "cluster", "surname")],
        "febrl3": [*columns("febrl3/records.csv", "cluster_id", "surname")],
        "crm": [*columns("crm/records.csv", "cluster_id", "last_name")],
    }


def columns(path: str, *names: str) -> Iterable[tuple[str, ...]]:
    records = read_records(Path(os.environ["SCDP_DATA"], path))
    return [row for row in zip(*(records[name].tolist() for name in names), strict=True) if None not in row]


def pairs_of(cells: Sequence[tuple[str, str]], differing: bool = True) -> tuple[list[Pair], list[Pair]]:
    """Pairs within clusters and between them; of differing words in the same place, or of whole cells."""
    clusters = defaultdict(list)
    for cluster, cell in cells:
        clusters[cluster].append(cell)
    within = {pair for each in clusters.values() for pair in combinations(sorted(set(each)), 2)}
    chance = random.Random(0)
    every = [cell for _, cell in cells]
    between = {(chance.choice(every), chance.choice(every)) for _ in range(N_STRANGERS)}
    return (
        (words_in_place(within), words_in_place(between))
        if differing
        else (sorted(within), sorted(pair for pair in between if pair[0] != pair[1])[:: N_STRANGERS // 20_000])
    )


def words_in_place(pairs: Iterable[Pair]) -> list[Pair]:
    found = set()
    for one, other in pairs:
        left, right = words_of(one), words_of(other)
        if len(left) == len(right):
            found |= {
                (min(p), max(p)) for p in zip(left, right, strict=True) if p[0] != p[1] and len(min(p, key=len)) > 3
            }
    return sorted(found)


def worth(within: Sequence[Pair], between: Sequence[Pair], same: Same, cost: float) -> float:
    """What a pair tells where words cost what `person_name` takes them to, but for those that are the same."""

    def costs(pairs: Sequence[Pair]) -> list[float]:
        plain = (min(2.5 * JaroWinkler.distance(one, other), 1.0) for one, other in pairs)
        return [min(each, cost) if same(*pair) else each for each, pair in zip(plain, pairs, strict=True)]

    return nats(costs(within), costs(between))


def distances_of(comparison: Comparison, pairs: Sequence[Pair], parse: Callable[[str], str]) -> list[float]:
    texts = [parse(text) for pair in pairs for text in pair]
    left = np.arange(0, len(texts), 2)
    return comparison.pairs(texts, left, left + 1).tolist()


def nats(members: Iterable[float], strangers: Iterable[float]) -> float:
    """What a member's distance tells on average against strangers, by the levels of evidence."""
    shares = []
    for distances in (members, strangers):
        levels = np.searchsorted(EDGES, [each for each in distances if not math.isnan(each)])
        counts = np.bincount(levels, minlength=N_LEVELS) + 0.5
        shares.append(counts / counts.sum())
    return float((shares[0] * np.log(shares[0] / shares[1])).sum())


if __name__ == "__main__":
    main()
