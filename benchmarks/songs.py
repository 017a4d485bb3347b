"""Made-up songs as five sources write them: F with few labels and without, where many songs share artist and album.

python -m benchmarks.songs [--songs 600] [--labels 0,20,60] [--seeds 2]

Names and words are those of the made-up people and citations. Some sources write the number, the artist or the album
into the title; lengths are seconds, milliseconds or minutes; years are cut or missing. Labelled clusters are drawn at
random and are not among the records that are clustered.
"""

from __future__ import annotations

import argparse
import random
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp import EntityResolver
from scdp.datasets import make_records
from scdp.estimators.clustering import cluster_records
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import f_score
from scdp.table import Records
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec

COLUMNS = ("number", "title", "length", "artist", "album", "year", "language")
LANGUAGES = ("English", "English", "English", "English", "German", "French", "")
# How many sources have a song, and how often.
SOURCES, SHARES = (1, 2, 3, 4, 5), (0.50, 0.22, 0.13, 0.10, 0.05)
SONGS_OF_AN_ARTIST = 6


class Song(NamedTuple):
    artist: str
    album: str
    year: int
    number: int
    title: str
    seconds: int
    language: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--songs", type=int, default=600)
    parser.add_argument("--labels", default="0,20,60")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| seed | labelled clusters | records | F | expected F | clusters (90 %) | true | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for seed in range(options.seeds):
        data, gold = make_songs(options.songs, seed)
        for n_labelled in map(int, options.labels.split(",")):
            print(try_labels(data, gold, n_labelled, seed), flush=True)


def make_songs(n_songs: int, seed: int) -> tuple[Records, NDArray[np.int64]]:
    """Records in a random order, and the song of each."""
    rng = random.Random(seed)
    songs = list(invent_songs(rng, n_songs))
    rows = [
        (write_song(rng, song, source), number)
        for number, song in enumerate(songs)
        for source in rng.sample(range(5), rng.choices(SOURCES, SHARES)[0])
    ]
    rng.shuffle(rows)
    cells = zip(*(row for row, _ in rows), strict=True)
    columns = {
        name: np.array([cell or None for cell in column], dtype=object)
        for name, column in zip(COLUMNS, cells, strict=True)
    }
    return Records(columns, "made-up songs"), np.array([number for _, number in rows])


def invent_songs(rng: random.Random, n_songs: int) -> list[Song]:
    words, names = known_words()
    artists = [
        rng.choice(names) if rng.random() < 0.5 else f"{rng.choice(words)} {rng.choice(words)}".title()
        for _ in range(max(n_songs // SONGS_OF_AN_ARTIST, 1))
    ]
    albums = {
        artist: [(say(rng, words, 4), rng.randint(1965, 2015)) for _ in range(rng.randint(1, 3))] for artist in artists
    }
    songs = []
    for _ in range(n_songs):
        artist = rng.choice(artists)
        album, year = rng.choice(albums[artist])
        number, title, seconds = rng.randint(1, 16), say(rng, words, 5), rng.randint(120, 420)
        songs.append(Song(artist, album, year, number, title, seconds, rng.choice(LANGUAGES)))
    return songs


def known_words() -> tuple[list[str], list[str]]:
    """Words of titles, and whole names of people."""
    papers, people = make_records(3000, "citations", seed=3).data, make_records(1500, "people", seed=4).data
    assert isinstance(papers, Records)
    assert isinstance(people, Records)
    titles = " ".join(title for title in papers["title"] if title)
    words = sorted({word.strip(".,:").lower() for word in titles.split() if len(word) > 2})
    names = [
        f"{first} {last}" for first, last in zip(people["first_name"], people["surname"], strict=True) if first and last
    ]
    return words, names


def say(rng: random.Random, words: list[str], most: int) -> str:
    return " ".join(rng.choice(words) for _ in range(rng.randint(1, most))).title()


def write_song(rng: random.Random, song: Song, source: int) -> tuple[str, ...]:
    """The song in the way of a source, with a few slips of the pen."""
    artist, album, year, number, title, seconds, language = song
    cells = [str(number), title, str(seconds * 1000), artist, album, str(year), language]
    if source == 1:
        cells[1], cells[2] = f"{number:03d}-{title}", f"{seconds // 60}m {seconds % 60}sec"
        cells[5], cells[6] = f"'{year % 100:02d}", f"{language[:3]}." if language else ""
    elif source == 2:
        cells[0], cells[1], cells[4] = f"{number:02d}", f"{title} - {album}", f"{album} ({year})"
        cells[2] = f"{seconds / 60:.3f}"
    elif source == 3:
        cells[1], cells[3] = f"{artist} - {title}", ""
        cells[2] = "unk." if rng.random() < 0.2 else str(seconds)
        cells[5] = "null" if rng.random() < 0.4 else f"{year % 100:02d}"
    elif source == 4:
        cells[2], cells[3], cells[6] = str(seconds), ", ".join(reversed(artist.split(" ", 1))), language.lower()
    for place in (1, 3, 4):
        if rng.random() < 0.15:
            cells[place] = misspell(rng, cells[place])
    if rng.random() < 0.1:
        cells[4] = ""
    return tuple(cells)


def misspell(rng: random.Random, text: str) -> str:
    """One letter lost, two exchanged, or one wrong."""
    if len(text) < 4:
        return text
    at, what = rng.randrange(1, len(text) - 1), rng.random()
    if what < 0.4:
        return text[:at] + text[at + 1 :]
    if what < 0.7:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return text[:at] + rng.choice("aeioursnt") + text[at + 1 :]


def try_labels(data: Records, gold: NDArray[np.int64], n_labelled: int, seed: int) -> str:
    """A line of the table."""
    chosen = np.random.default_rng(seed).permutation(gold.max() + 1)[:n_labelled]
    taught = np.isin(gold, chosen)
    rest = data.take(~taught)
    labels = None if n_labelled == 0 else canonical_labels(gold[taught].tolist())
    train = rest if labels is None else data.take(taught)
    spec = Spec("entity", proposed_comparisons(train, COLUMNS))
    result = cluster_records(EntityResolver(spec=spec, random_state=0).fit(train, labels), rest)
    truth = canonical_labels(gold[~taught].tolist())
    low, high = result.posterior.n_clusters_interval(0.9)
    f = f_score(truth, canonical_labels(np.asarray(result.labels).tolist()))
    return (
        f"| {seed} | {n_labelled} | {len(rest)} | {f:.3f} | {result.expected['f']['mean']:.2f} | "
        f"{result.n_clusters} ({low} to {high}) | {truth.max() + 1} | {result.verdict.colour} |"
    )


if __name__ == "__main__":
    main()
