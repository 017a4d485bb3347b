"""Words matched with words, compiled: names, companies, addresses and titles as lists of words go in, distances come
out. Equal words are matched first, the others so that the sum of their costs is the smallest. Of names that are parts
of other names, levels for how one is in the other come out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.compare.kernels import MOST_LETTERS, clear_masks, is_one_edit, jaro_winkler, set_masks
from scdp.compare.languages import Lexicon
from scdp.compare.names import MOST_WORDS
from scdp.hashing import MIXER

Rows = NDArray[np.int64]
Values = NDArray[np.float64]
Codes = NDArray[np.int32]

# The Jaro-Winkler distance of two words costs so many times its value, at most 1; up to this similarity it costs 1.
STEEPNESS = 2.5
NEAR_ENOUGH = 1.0 - 1.0 / STEEPNESS
# The Jaro similarity of words with m letters in common is at most (m / length + m / other length + 1) / 3, and so low
# a one gains nothing by a common start. Rounding is allowed for.
FEWEST_COMMON = 3.0 * NEAR_ENOUGH - 1.0 - 1e-9
# What two words cost is kept until others take the place, since texts of a column share many words: so many places for
# each text, a power of two between these.
LEAST_KEPT, MOST_KEPT = 64, 1 << 16
KEPT_FOR_A_TEXT = 8
# Words that are near enough to stand for each other in long texts, and the fewest letters of such a word.
SOFT, SHORTEST_SOFT = 0.9, 4
CODE_END, CODE_EDIT, SHORTEST_END = 0.1, 0.2, 4


class Rules(NamedTuple):
    """What a given name's initial, a nickname and another spelling of the same sound cost at most.

    `shortened` is what a word costs whose letters the other has in order ("trans"). `extra` is the share of words that
    only one has that is added.
    """

    initial: float
    nickname: float
    extra: float
    sound: float = 1.0
    shortened: float = 1.0


PERSON = Rules(initial=0.1, nickname=0.05, extra=0.2, sound=0.2)
COMPANY = Rules(initial=1.0, nickname=1.0, extra=0.5)
ADDRESS = Rules(initial=1.0, nickname=1.0, extra=0.3)
TITLE = Rules(initial=1.0, nickname=1.0, extra=0.4)
VENUE = Rules(initial=0.1, nickname=1.0, extra=0.3, shortened=0.1)
# A shortened word that is not the start of the other has at least so many letters.
SHORTEST_SHORTENED = 4


class KeptCosts(NamedTuple):
    """What pairs of words cost, by a hash of their numbers; the key of no pair of words is zero."""

    keys: NDArray[np.uint64]
    costs: Values

    @classmethod
    def empty(cls, n_texts: int) -> KeptCosts:
        size = LEAST_KEPT
        while size < min(KEPT_FOR_A_TEXT * n_texts, MOST_KEPT):
            size *= 2
        return cls(np.zeros(size, dtype=np.uint64), np.empty(size))


@kernel
def word_distance(lexicon: Lexicon, masks: NDArray[np.uint64], one: int, other: int) -> float:
    """Jaro-Winkler distance of two words of the lexicon; `masks` is scratch, zero before and after."""
    if one > other:
        one, other = other, one
    letters, at = lexicon.letters, lexicon.at
    fits = at[one + 1] - at[one] <= MOST_LETTERS
    if fits:
        set_masks(masks, 0, letters, at[one], at[one + 1])
    distance = jaro_winkler(masks, 0, letters, at[one], at[one + 1], at[other], at[other + 1])
    if fits:
        clear_masks(masks, 0, letters, at[one], at[one + 1])
    return distance


@kernel
def count_set(bits: np.uint64) -> int:
    """How many bits are set."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


@kernel
def is_far(lexicon: Lexicon, one: int, other: int) -> bool:
    """Whether two words have too few letters in common for a Jaro-Winkler similarity above `NEAR_ENOUGH`.

    What a letter of one matches is the same letter of the other, so that letters that only one has match nothing.
    """
    length, other_length = lexicon.at[one + 1] - lexicon.at[one], lexicon.at[other + 1] - lexicon.at[other]
    held, other_held = lexicon.held[one], lexicon.held[other]
    most = min(length - count_set(held & ~other_held), other_length - count_set(other_held & ~held))
    return most * (length + other_length) <= FEWEST_COMMON * length * other_length


@kernel
def share_group(lexicon: Lexicon, one: int, other: int) -> bool:
    """Whether two words are names that one person may go by."""
    at = lexicon.group_at
    for i in range(at[one], at[one + 1]):
        for j in range(at[other], at[other + 1]):
            if lexicon.groups[i] == lexicon.groups[j]:
                return True
    return False


@kernel
def is_shortened(lexicon: Lexicon, one: int, other: int) -> bool:
    """Whether one word is the start of the other ("mach", "machine") or, being longer, has its letters in order."""
    at, letters = lexicon.at, lexicon.letters
    if at[one + 1] - at[one] > at[other + 1] - at[other]:
        one, other = other, one
    start, length = at[one], at[one + 1] - at[one]
    matched, place = 0, at[other]
    is_start = True
    while matched < length and place < at[other + 1]:
        if letters[place] == letters[start + matched]:
            matched += 1
        else:
            is_start = False
            if place == at[other]:
                return False
        place += 1
    return matched == length < at[other + 1] - at[other] and (is_start or length >= SHORTEST_SHORTENED)


@kernel
def word_cost(lexicon: Lexicon, rules: Rules, masks: NDArray[np.uint64], one: int, other: int) -> float:
    """What it costs to match two different words, from 0 to 1."""
    at, letters = lexicon.at, lexicon.letters
    if at[one + 1] - at[one] == 1 or at[other + 1] - at[other] == 1:
        return rules.initial if letters[at[one]] == letters[at[other]] else 1.0
    if lexicon.digit[one] or lexicon.digit[other]:
        return 1.0
    if share_group(lexicon, one, other):
        return rules.nickname
    if rules.sound < 1.0 and lexicon.sounds[one] > 0 and lexicon.sounds[one] == lexicon.sounds[other]:
        return min(STEEPNESS * word_distance(lexicon, masks, one, other), rules.sound)
    if rules.shortened < 1.0 and is_shortened(lexicon, one, other):
        return rules.shortened
    if is_far(lexicon, one, other):
        return 1.0
    return min(STEEPNESS * word_distance(lexicon, masks, one, other), 1.0)


@kernel
def cheapest_matching(costs: Values, n_rows: int, n_columns: int, best: Values) -> float:
    """The smallest sum of costs where every row is matched with another column, or with none at a cost of 1.

    `best[set]` is the cheapest so far for the rows in the set; it is scratch of 2**n_rows entries.
    """
    n_sets = 1 << n_rows
    best[0] = 0.0
    for each in range(1, n_sets):
        best[each] = np.inf
    for column in range(n_columns):
        for each in range(n_sets - 1, -1, -1):
            for row in range(n_rows):
                bit = 1 << row
                if each & bit and costs[row, column] < 1.0:
                    best[each] = min(best[each], best[each ^ bit] + costs[row, column])
    cheapest = np.inf
    for each in range(n_sets):
        n_matched = 0
        for row in range(n_rows):
            n_matched += (each >> row) & 1
        cheapest = min(cheapest, best[each] + (n_rows - n_matched))
    return cheapest


@kernel
def fill_matched(
    lexicon: Lexicon,
    rules: Rules,
    ids: NDArray[np.int32],
    starts: NDArray[np.int64],
    left: Rows,
    right: Rows,
    kept: KeptCosts,
    out: Values,
) -> None:
    """out[p] = cost of matching the fewer words / how many + a share for the words that are more; NaN without words."""
    masks = np.zeros((1, lexicon.n_letters), np.uint64)
    costs = np.empty((MOST_WORDS, MOST_WORDS))
    best = np.empty(1 << MOST_WORDS)
    few, many = np.empty(MOST_WORDS, np.int64), np.empty(MOST_WORDS, np.int64)
    keys, kept_costs = kept
    for p in range(len(left)):
        a, b = left[p], right[p]
        if starts[a + 1] - starts[a] > starts[b + 1] - starts[b]:
            a, b = b, a
        n_few, n_many = starts[a + 1] - starts[a], starts[b + 1] - starts[b]
        if n_few == 0:
            out[p] = np.nan
            continue
        for j in range(n_many):
            many[j] = ids[starts[b] + j]
        n_rows, n_columns = 0, n_many
        for i in range(n_few):
            word = ids[starts[a] + i]
            j = 0
            while j < n_columns and many[j] != word:
                j += 1
            if j < n_columns:
                n_columns -= 1
                many[j] = many[n_columns]
            else:
                few[n_rows] = word
                n_rows += 1
        # Rows that no column is near to cost 1 and need not be matched.
        total = 0.0
        n_near = 0
        for i in range(n_rows):
            nearest = 1.0
            for j in range(n_columns):
                one, other = min(few[i], many[j]), max(few[i], many[j])
                key = (np.uint64(other) << np.uint64(32)) | np.uint64(one)
                place = np.int64((key * MIXER) >> np.uint64(40)) & (len(keys) - 1)
                if keys[place] != key:
                    kept_costs[place] = word_cost(lexicon, rules, masks, one, other)
                    keys[place] = key
                costs[n_near, j] = kept_costs[place]
                nearest = min(nearest, costs[n_near, j])
            if nearest < 1.0:
                n_near += 1
            else:
                total += 1.0
        if n_near == 1:
            total += costs[0, :n_columns].min()
        elif n_near > 1:
            total += cheapest_matching(costs, n_near, n_columns, best)
        out[p] = min(total / n_few + rules.extra * (n_many - n_few) / n_many, 1.0)


@kernel
def fill_covered(
    lexicon: Lexicon,
    ids: NDArray[np.int32],
    starts: NDArray[np.int64],
    weights: Values,
    left: Rows,
    right: Rows,
    of_left: Values,
    of_right: Values,
) -> None:
    """The sums of the weights of the words of each that the other has, those with a near one by their similarity."""
    masks = np.zeros((1, lexicon.n_letters), np.uint64)
    at, letters = lexicon.at, lexicon.letters
    found = np.zeros(max(int(np.diff(starts).max()) if len(starts) > 1 else 0, 1))
    for p in range(len(left)):
        a, b = starts[left[p]], starts[right[p]]
        n_a, n_b = starts[left[p] + 1] - a, starts[right[p] + 1] - b
        found[:n_b] = 0.0
        total = 0.0
        for i in range(n_a):
            one = ids[a + i]
            best = 0.0
            length = at[one + 1] - at[one]
            soft = length >= SHORTEST_SOFT and not lexicon.digit[one]
            for j in range(n_b):
                other = ids[b + j]
                if one == other:
                    best = 1.0
                    found[j] = 1.0
                elif soft and letters[at[one]] == letters[at[other]] and not lexicon.digit[other]:
                    other_length = at[other + 1] - at[other]
                    if other_length >= SHORTEST_SOFT and abs(length - other_length) <= 2:
                        similarity = 1.0 - word_distance(lexicon, masks, one, other)
                        if similarity >= SOFT:
                            best, found[j] = max(best, similarity), max(found[j], similarity)
            total += best * weights[one]
        of_left[p] = total
        total = 0.0
        for j in range(n_b):
            total += found[j] * weights[ids[b + j]]
        of_right[p] = total


@kernel
def fill_codes(letters: Any, starts: NDArray[np.int64], left: Rows, right: Rows, out: Values) -> None:
    """out[p] of two codes: 0 equal, then one ends the other, one edit, and from 0.5 to 1 by their common start."""
    for p in range(len(left)):
        a, end_a, b, end_b = starts[left[p]], starts[left[p] + 1], starts[right[p]], starts[right[p] + 1]
        shorter, longer = min(end_a - a, end_b - b), max(end_a - a, end_b - b)
        ahead, behind = 0, 0
        while ahead < shorter and letters[a + ahead] == letters[b + ahead]:
            ahead += 1
        while behind < shorter and letters[end_a - 1 - behind] == letters[end_b - 1 - behind]:
            behind += 1
        if ahead == shorter == longer:
            out[p] = 0.0
        elif behind == shorter and shorter >= SHORTEST_END:
            out[p] = CODE_END
        elif is_one_edit(letters, a, end_a, b, end_b):
            out[p] = CODE_EDIT
        else:
            out[p] = 1.0 - 0.5 * ahead / longer


@kernel
def fill_one_edit(letters: Any, starts: NDArray[np.int64], near: float, left: Rows, right: Rows, out: Values) -> None:
    """out[p] = 0 where two texts are equal, `near` where one edit makes them so, else 1."""
    for p in range(len(left)):
        a, end_a, b, end_b = starts[left[p]], starts[left[p] + 1], starts[right[p]], starts[right[p] + 1]
        same = end_a - a == end_b - b
        place = 0
        while same and place < end_a - a:
            same = letters[a + place] == letters[b + place]
            place += 1
        if same:
            out[p] = 0.0
        elif end_a - a > 1 and end_b - b > 1 and is_one_edit(letters, a, end_a, b, end_b):
            out[p] = near
        else:
            out[p] = 1.0


# The last name and the whole, the given name and the whole, a part with one word less, a part elsewhere, and a name
# with a word for a sort of thing that the other has not.
LAST_NAME, GIVEN_NAME, ONE_MORE, ELSEWHERE, OTHER_SORT = 0.12, 0.15, 0.25, 0.6, 0.7


@kernel
def fill_acronyms(
    letters: NDArray[Any], short: Rows, initials: Rows, fewest: Rows, left: Rows, right: Rows, out: Values
) -> None:
    """out[p] = 1 where the acronym of one has, in order, first letters of the words of the other, and enough of them.

    Text k has letters[short[k]:short[k + 1]] as its acronym, letters[initials[k]:initials[k + 1]] as its first letters.
    """
    for p in range(len(left)):
        out[p] = 0.0
        for turned in range(2):
            a, b = (left[p], right[p]) if turned == 0 else (right[p], left[p])
            at, end = short[a], short[a + 1]
            if end - at < fewest[b]:
                continue
            for place in range(initials[b], initials[b + 1]):
                if at < end and letters[place] == letters[at]:
                    at += 1
            if at == end:
                out[p] = 1.0


@kernel
def fill_parts(
    ids: NDArray[np.int32],
    starts: Rows,
    given: NDArray[np.bool_],
    sort: NDArray[np.bool_],
    left: Rows,
    right: Rows,
    out: Values,
) -> None:
    """out[p] = 0 for the same words, a level where the words of one are in the other, else -1."""
    for p in range(len(left)):
        a, b = left[p], right[p]
        if starts[a + 1] - starts[a] > starts[b + 1] - starts[b]:
            a, b = b, a
        at, to, end_at, end_to = starts[a], starts[b], starts[a + 1], starts[b + 1]
        n_few, n_more = end_at - at, (end_to - to) - (end_at - at)
        inside, equal, other_sort = True, True, False
        for i in range(at, end_at):
            found = False
            for j in range(to, end_to):
                found = found or ids[i] == ids[j]
            inside = inside and found
        for j in range(to, end_to):
            found = False
            for i in range(at, end_at):
                found = found or ids[i] == ids[j]
            equal = equal and found
            other_sort = other_sort or (sort[ids[j]] and not found)
        if not inside or (n_more == 0 and not equal):
            out[p] = -1.0
            continue
        first, last = True, True
        for i in range(n_few):
            first = first and ids[at + i] == ids[to + i]
            last = last and ids[at + i] == ids[to + n_more + i]
        if n_more == 0:
            out[p] = 0.0
        elif other_sort:
            out[p] = OTHER_SORT
        elif last and (n_more == 1 or given[ids[to]]):
            out[p] = LAST_NAME
        elif first and n_few == 1 and given[ids[at]]:
            out[p] = GIVEN_NAME
        elif last or (first and n_more == 1):
            out[p] = ONE_MORE
        else:
            out[p] = ELSEWHERE
