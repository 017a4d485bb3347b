"""Slow, obvious twins of the kinds that read what columns hold: two values go in, a distance comes out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import permutations
from typing import Any

from rapidfuzz.distance import OSA, JaroWinkler, Levenshtein

from scdp.compare.content import SORTS
from scdp.compare.languages import SHORTEST_SOUND, SOUNDS, nickname_groups, spelling_key

GroupsOf = Callable[[str], frozenset[int]]


def word_cost(
    one: str, other: str, initial: float, nickname: float, shortened: float = 1.0, groups_of: GroupsOf = nickname_groups
) -> float:
    if len(one) == 1 or len(other) == 1:
        return initial if one[0] == other[0] else 1.0
    if any(map(str.isdigit, one + other)):
        return 1.0
    if nickname < 1 and groups_of(one) & groups_of(other):
        return nickname
    if nickname < 1 and spelling_key(one) == spelling_key(other):
        return nickname
    if nickname < 1 and sound_key(one) and sound_key(one) == sound_key(other):
        return min(2.5 * JaroWinkler.distance(*sorted((one, other))), 0.2)
    if shortened < 1 and is_shortened(*sorted((one, other), key=len)):
        return shortened
    return min(2.5 * JaroWinkler.distance(*sorted((one, other))), 1.0)


def sound_key(word: str) -> str:
    if len(word) < SHORTEST_SOUND or not re.fullmatch("[A-Za-z]+", word):
        return ""
    for pattern, sound in SOUNDS:
        word = re.sub(pattern, sound, word)
    return word


def is_shortened(short: str, long: str) -> bool:
    if len(short) == len(long) or short[0] != long[0]:
        return False
    return long.startswith(short) or (len(short) >= 4 and is_in_order(short, long))


def is_in_order(few: str, many: str) -> bool:
    letters = iter(many)
    return all(letter in letters for letter in few)


def venue(a: Any, b: Any) -> float:
    found = matched_words(a.words, b.words, 0.1, 1.0, 0.3, 0.1)
    assert found is not None
    if "".join(a.words) == "".join(b.words):
        found = min(found, 0.0 if a == b else 0.02)
    for one, other in ((a, b), (b, a)):
        if len(one.acronym) >= other.fewest and is_in_order(one.acronym, other.initials):
            found = min(found, 0.2)
    return found


def matched_words(
    a: Sequence[str],
    b: Sequence[str],
    initial: float,
    nickname: float,
    extra: float,
    shortened: float = 1.0,
    groups_of: GroupsOf = nickname_groups,
) -> float | None:
    if not a or not b:
        return None
    few, many = sorted((list(a), list(b)), key=len)
    n_few, n_many = len(few), len(many)
    for word in list(few):
        if word in many:
            few.remove(word)
            many.remove(word)
    cheapest = min(
        (
            sum(
                word_cost(one, other, initial, nickname, shortened, groups_of)
                for one, other in zip(few, chosen, strict=True)
            )
            for chosen in permutations(many, len(few))
        ),
        default=0.0,
    )
    return min(cheapest / n_few + extra * (n_many - n_few) / n_many, 1.0)


def person_name(a: Any, b: Any, groups_of: GroupsOf = nickname_groups) -> float:
    found = matched_words(a.words, b.words, 0.1, 0.05, 0.2, groups_of=groups_of)
    assert found is not None
    if "".join(a.words) == "".join(b.words):
        found = min(found, 0.0 if a == b else 0.02)
    if a.sex and b.sex and a.sex != b.sex:
        found = max(found, 0.5)
    if a.suffix and b.suffix and a.suffix != b.suffix:
        found = max(found, 0.3)
    return found


def company(a: Sequence[str], b: Sequence[str]) -> float:
    found = matched_words(a, b, 1.0, 1.0, 0.5)
    assert found is not None
    if "".join(a) == "".join(b):
        found = min(found, 0.0 if a == b else 0.02)
    for one, other in ((a, b), (b, a)):
        if len(one) > 1 and "".join(word[0] for word in one) == "".join(other):
            found = min(found, 0.2)
    return found


def title(a: Any, b: Any) -> float:
    found = matched_words(a.words, b.words, 1.0, 1.0, 0.4)
    assert found is not None
    if "".join(a.words) == "".join(b.words):
        found = min(found, 0.0 if a == b else 0.02)
    if a.versions != b.versions:
        found = max(found, 0.4) if a.versions and b.versions else found + 0.15
    if a.numbers and b.numbers and a.numbers != b.numbers:
        found = max(found, 0.4)
    return min(found, 1.0)


def proper_noun(a: Any, b: Any) -> float:
    found = part_of_name(*sorted((a.words, b.words), key=len))
    if found is None:
        words = matched_words(a.words, b.words, 0.1, 0.05, 0.2)
        assert words is not None
        if "".join(a.words) == "".join(b.words):
            words = min(words, 0.02)
        found = 0.4 if words <= 0.25 else 0.75 + 0.25 * words
    if a.letters == b.acronym or b.letters == a.acronym:
        found = min(found, 0.05)
    return max(found, 0.9) if a.sex and b.sex and a.sex != b.sex else found


def part_of_name(few: tuple[str, ...], many: tuple[str, ...]) -> float | None:
    """A level where the words of one name are in the other."""
    if not set(few) <= set(many) or (len(few) == len(many) and set(few) != set(many)):
        return None
    if len(few) == len(many):
        return 0.0
    more = len(many) - len(few)
    first, last = many[: len(few)] == few, many[-len(few) :] == few
    if any(word in SORTS for word in set(many) - set(few)):
        return 0.7
    if last and (more == 1 or nickname_groups(many[0])):
        return 0.12
    if first and len(few) == 1 and nickname_groups(few[0]):
        return 0.15
    return 0.25 if last or (first and more == 1) else 0.6


def duration(a: Any, b: Any) -> float:
    if a.known and b.known:
        return relative(a.value, b.value)
    if not a.known and not b.known:
        low, high = sorted((a.value, b.value))
        others = [relative(low * times, high) for times in (60, 1000, 60000)]
    else:
        known, other = (a.value, b.value) if a.known else (b.value, a.value)
        others = [relative(known * times, other) for times in (1 / 60, 1000)]
    return min(relative(a.value, b.value), 0.02 + min(others), 1.0)


def pages(a: Any, b: Any) -> float:
    if a == b:
        return 0.0
    if a.first == b.first:
        return 0.3 if a.last and b.last else 0.1
    return 0.5 if a.last and a.last == b.last else 1.0


def year(a: int, b: int) -> float:
    gap = abs(a - b)
    if a < 100 or b < 100:
        gap = abs(a % 100 - b % 100)
        gap = min(gap, 100 - gap)
    return gap / (gap + 5)


def address(a: Any, b: Any) -> float:
    parts = []
    for name, weight in (("number", 0.3), ("unit", 0.1), ("postcode", 0.1)):
        one, other = getattr(a, name), getattr(b, name)
        if one and other:
            near = min(len(one), len(other)) > 1 and OSA.distance(one, other) == 1
            parts.append((weight, 0.0 if one == other else 0.4 if near else 1.0))
    words = matched_words(a.words, b.words, 1.0, 1.0, 0.3)
    if words is not None:
        parts.append((0.5, words))
    return sum(w * d for w, d in parts) / sum(w for w, _ in parts) if parts else 1.0


def date(a: tuple[int, int, int], b: tuple[int, int, int]) -> float:
    if a == b:
        return 0.0
    same = [x == y for x, y in zip(a, b, strict=True)]
    if not (a[2] and b[2]):
        if same[0] and (same[1] or not (a[1] and b[1])):
            return 0.15
        return 0.6 if same[0] else 0.8 if abs(a[0] - b[0]) == 1 else 1.0
    if same[0] and a[1:] == b[:0:-1]:
        return 0.1
    one, other = ("{:04d}{:02d}{:02d}".format(*each) for each in (a, b))
    if Counter(x == y for x, y in zip(one, other, strict=True))[False] == 1 or (
        OSA.distance(one, other) == 1 and sorted(one) == sorted(other)
    ):
        return 0.2
    days = [(year * 12 + month) * 31 + day for year, month, day in (a, b)]
    if abs(days[0] - days[1]) <= 31:
        return 0.3
    if sum(same) == 2:
        return 0.45
    level = 0.6 if same[0] else 0.8 if abs(a[0] - b[0]) == 1 else 1.0
    return min(level, 0.4 + 0.075 * sum(x != y for x, y in zip(one, other, strict=True)))


def phone(a: str, b: str) -> float:
    shorter = min(len(a), len(b))
    if a == b or (shorter >= 7 and a[-shorter:] == b[-shorter:]):
        return 0.0
    if shorter >= 7 and a[-7:] == b[-7:]:
        return 0.1
    one, other = a[-10:], b[-10:]
    both = min(len(one), len(other))
    x, y = one[-both:], other[-both:]
    wrong = [place for place in range(both) if x[place] != y[place]]
    turned = len(wrong) == 2 and wrong[1] == wrong[0] + 1 and sorted(x) == sorted(y)
    if len(wrong) == 1 or turned:
        return 0.2
    return 0.8 if int(one[:4]) == int(other[:4]) else 1.0


def relaxed(distance: float, year: float | None, other: float | None, half_life: float) -> float:
    """Of the part of a distance that is above a half, half is left after every half-life."""
    if year is None or other is None or not distance > 0.5:
        return distance
    return 0.5 + (distance - 0.5) * 0.5 ** (abs(year - other) / half_life)


def two_parts(a: Sequence[str], b: Sequence[str], weights: tuple[float, float]) -> float:
    edits = (Levenshtein.normalized_distance(x, y) for x, y in zip(a, b, strict=True))
    return sum(w * d for w, d in zip(weights, edits, strict=True))


def code(a: str, b: str) -> float:
    if a == b:
        return 0.0
    shorter, longer = sorted((a, b), key=len)
    if len(shorter) >= 4 and longer.endswith(shorter):
        return 0.1
    if OSA.distance(a, b) == 1:
        return 0.2
    start = next((k for k in range(len(shorter)) if a[k] != b[k]), len(shorter))
    return 1 - 0.5 * start / len(longer)


def relative(a: float, b: float) -> float:
    return 0.0 if a == b else min(abs(a / 2 - b / 2) / (max(abs(a), abs(b)) / 2), 1.0)


def geo(a: tuple[float, float], b: tuple[float, float], scale: float = 10.0) -> float:
    (lat_a, lon_a), (lat_b, lon_b) = (tuple(map(math.radians, each)) for each in (a, b))
    h = math.sin((lat_a - lat_b) / 2) ** 2
    h += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_a - lon_b) / 2) ** 2
    km = 2 * 6371.0 * math.asin(math.sqrt(min(h, 1.0)))
    return km / (km + scale)


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    if len(a) != len(b):
        return 1.0
    long_a, long_b = math.hypot(*a), math.hypot(*b)
    return min(max(1.0 - sum(x / long_a * (y / long_b) for x, y in zip(a, b, strict=True)), 0.0), 1.0)


def acronym(a: tuple[str, str], b: tuple[str, str]) -> float:
    if a[0] == b[0]:
        return 0.0
    if (a[0] == b[1] and len(b[1]) > 1) or (b[0] == a[1] and len(a[1]) > 1):
        return 0.1
    return 0.4 if a[1] == b[1] and len(a[1]) > 1 else 1.0


def overlap(a: Iterable[str], b: Iterable[str]) -> float:
    x, y = set(a), set(b)
    return 1 - (len(x & y) / len(x) + len(x & y) / len(y)) / 2


class Counted:
    """How many of the records have each token; twins of kinds that weigh by rarity are its methods."""

    def __init__(self, values: Iterable[Iterable[Hashable] | None]) -> None:
        sets = [set(tokens) for tokens in values if tokens is not None]
        self.n = len(sets)
        self.counts = Counter(token for tokens in sets for token in tokens)

    def nats(self, token: Hashable) -> float:
        return math.log(self.n / self.counts[token])

    def shared_nats(self, a: Iterable[Hashable], b: Iterable[Hashable]) -> float:
        return sum(map(self.nats, set(a) & set(b)))

    def largest_shared_nats(self, a: Iterable[Hashable], b: Iterable[Hashable]) -> float:
        return max(map(self.nats, set(a) & set(b)), default=0.0)

    def _weight(self, token: Hashable) -> float:
        return math.log1p(self.n / self.counts[token])

    def tfidf(self, a: Iterable[str], b: Iterable[str]) -> float:
        x, y = set(a), set(b)
        shared, left, right = (sum(self._weight(t) ** 2 for t in each) for each in (x & y, x, y))
        return 1 - shared / math.sqrt(left * right)

    def rare_words(self, a: Iterable[str], b: Iterable[str]) -> float:
        shared, either = ({*a} & {*b}), ({*a} | {*b})
        return 1 - sum(map(self._weight, shared)) / sum(map(self._weight, either))

    def _share(self, a: set[str], b: set[str]) -> float:
        total = sum(map(self._weight, a))
        return sum(self._weight(word) * max(_nearness(word, other) for other in b) for word in a) / total

    def soft_tokens(self, a: Iterable[str], b: Iterable[str]) -> float:
        x, y = set(a), set(b)
        return 1 - math.sqrt(self._share(x, y) * self._share(y, x))

    def contained_tokens(self, a: Iterable[str], b: Iterable[str]) -> float:
        x, y = set(a), set(b)
        return 1 - max(self._share(x, y), self._share(y, x))

    def _rarity(self, token: str) -> float:
        top = math.log(max(self.n / 2, math.e))
        return min(self.nats(token) / top, 1.0) ** 3 * (0.7 if token.startswith("~") else 1.0)

    def codes_in_text(self, a: Iterable[str], b: Iterable[str]) -> float:
        x, y = set(a), set(b)
        own, other = (
            max((self._rarity(token) for token in each if not token.startswith("~")), default=0.0)
            for each in (x - y, y - x)
        )
        if x & y:
            return 0.5 * (1 - max(map(self._rarity, x & y))) + 0.3 * min(own, other)
        return 0.6 + 0.4 * min(own, other)


def _nearness(one: str, other: str) -> float:
    if one == other:
        return 1.0
    too_short = min(len(one), len(other)) < 4 or abs(len(one) - len(other)) > 2
    if too_short or one[0] != other[0] or any(map(str.isdigit, one + other)):
        return 0.0
    similarity = 1 - JaroWinkler.distance(*sorted((one, other)))
    return similarity if similarity >= 0.9 else 0.0
