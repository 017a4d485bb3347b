"""The generator's words: syllables and word lists enter, fixed tables of names, places and venues leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product

import numpy as np

from scdp.table.records import Column


def _words(text: str) -> list[str]:
    return text.split()


COMMON_FIRST_NAMES = _words("""
Maria Anna John Peter James Mary Thomas Sarah David Laura Michael Emma Daniel Julia Robert Sofia Paul Helen
Martin Clara Andrew Nora Simon Alice George Eva Mark Lucy Stephen Ida Richard Jane Victor Rosa Frank Irene
Oscar Marta Henry Elena Felix Agnes Leon Ruth Hugo Vera Adam Lena Karl Olga Max Tina Erik Nina Omar Leila
Ivan Mina Hassan Amira Ravi Priya Kenji Yuki Chen Mei Diego Carmen Pablo Lucia Kofi Ama Tomas Petra Anton
Greta Joel Miriam Isaac Esther Louis Chloe Bruno Paula Emil Frida Arthur Violet Walter Edith Harold Doris
""")
FIRST_NAME_STARTS = _words("""
Al Bel Cor Dar El Fen Gal Har Is Jor Kal Lor Mar Nel Or Per Ros Sal Tam Ul Val Wil Yar Zel An Bri Cla Del Em
Flor Gil Hen Jul Kat Leo Mal Nad Ren Syl Ther
""")
FIRST_NAME_ENDS = _words(
    "a an ard elle en eo ia iel ien in ine io is ita lin mir na ne on or ra ric sa us win"
)

COMMON_SURNAMES = _words("""
Miller Carter Hughes Weber Keller Novak Larsen Moreau Rossi Silva Jansen Kovac Meyer Walker Fischer Bennett
Santos Okafor Tanaka Sharma Ali Nguyen Kim Lopez Ivanova Costa Dubois Fraser Grant Hansen Murphy Olsen Peters
Reid Schmidt Turner Vogel Wood Young Adler Becker Conti Duarte Eriksen Fontana Greco Haas Ito
""")
SURNAME_STARTS = _words("""
Ash Bar Berg Black Bran Brom Cal Cam Chad Cole Cran Dal Dun East Eld Fair Fal Fen Gar Glen Gold Gran Hal Ham
Hart Haw Hol Horn Kel Kent Kirk Lang Lin Lock Lowen Mar Mer Mil Mont Nor Oak Or Pem Pren Quin Rad Raven Red
Rock Rosen Ruth Sand Shel Stan Stein Strat Tal Thorn Ul Var Wal War Wes Whit Win Wolf
""")
SURNAME_MIDDLES = ["", "ber", "der", "el", "en", "er", "ing", "le", "o", "ter"]
SURNAME_ENDS = _words("""
ack ard beck bourne bury by camp dale dorf ell feld field ford gate ham hoff holm house hurst ick land ley low
man mann mark mere mont more ov par quist ridge s sen ski son stad stone strom ton vale vik ville wald ward
well wick wood worth
""")

PLACE_STARTS = _words("""
Alder Amber Bay Birch Bridge Brook Castle Clear Cold Deer Dove Eagle Elm Fair Frost Green Grey High Iron Kings
Lake Long Maple Mill New North Oak Port Queens Red River Salt Silver South Spring Stone Summer Sun West White
""")
PLACE_ENDS = _words("bridge brook burgh bury dale field ford haven hill mouth port ton view ville water wood")

STREET_WORDS = _words("""
Abbey Acorn Albion Apple Arch Aspen Bakery Bank Barley Beech Bell Bishop Bridge Bronze Canal Castle Cedar
Chapel Cherry Church Clover College Copper Cross Dock Duke Elm Factory Farm Fern Field Forest Fountain Garden
Glebe Grange Guild Harbour Hazel Heath Hill Holly Ivy Jasmine Juniper King Lake Larch Laurel Library Lime
Linden Lock Manor Maple Market Meadow Mill Mint Moor Museum Nettle Oak Orchard Palace Park Pear Pine Plum
Pond Poplar Prince Priory Quarry Queen Railway River Rose Rowan School Silver Spring Square Station Stone
Temple Theatre Tower Union Valley Victory Vine Walnut Water Well Willow Windmill Wood Yew
""")
STREET_KINDS = {
    "Street": "St",
    "Road": "Rd",
    "Avenue": "Ave",
    "Lane": "Ln",
    "Drive": "Dr",
    "Court": "Ct",
    "Terrace": "Ter",
}

TITLE_ADJECTIVES = _words("""
Adaptive Approximate Bayesian Causal Collective Compact Constrained Continuous Deep Dependent Discrete
Discriminative Distributed Dynamic Efficient Exact Fast Flexible Generative Global Hidden Hierarchical
Incremental Infinite Interactive Invariant Joint Large Latent Lazy Lifted Linear Local Nested Noisy
Nonparametric Online Optimal Parallel Partial Probabilistic Random Recursive Relational Robust Scalable
Semantic Sequential Sparse Spectral Stochastic Structured Supervised Temporal Transductive Unified Variational
""")
TITLE_METHODS = _words("""
Abstraction Alignment Annotation Approximation Blocking Bounds Classification Clustering Compression
Constraints Coreference Decoding Detection Distances Embedding Enumeration Estimation Evaluation Experiments
Explanation Extraction Factorization Filtering Forests Grammars Hashing Indexing Induction Inference Kernels
Labelling Learning Linkage Localization Matching Mixtures Models Networks Optimization Partitioning Planning
Prediction Priors Processes Programming Ranking Reasoning Recognition Regression Retrieval Sampling Search
Segmentation Selection Simulation Smoothing Summaries Tracking Translation Trees Verification
""")
TITLE_LINKS = ["for", "of", "from", "with", "in", "over"]
TITLE_SUBJECTS = _words("""
Addresses Agents Archives Authors Auctions Bibliographies Catalogues Censuses Citations Corpora Databases
Dialogues Documents Entities Events Experts Faces Families Features Games Genomes Graphs Handwriting Histories
Households Images Journals Languages Ledgers Letters Libraries Markets Maps Melodies Mentions Messages Names
Neurons News Objects Opinions Parsers Patients Pedigrees Persons Phonemes Pronouns Proteins Queries Records
Recipes Registers Relations Robots Scenes Schemas Sensors Sentences Sequences Signals Sketches Species Speech
Streams Surveys Symbols Tables Texts Threads Traces Trajectories Trials Users Videos Voices Words
""")
SUBTITLES = [
    "A Case Study",
    "A Second Look",
    "An Empirical Comparison",
    "Theory and Practice",
    "First Results",
]

COMPANY_TRADES = _words("Foods Systems Tools Media Travel Energy Paper Design Motors Textiles")
COMPANY_FORMS = ["Ltd", "GmbH", "Inc.", "S.A.", "plc"]

VENUE_KINDS = {
    "Proceedings of the International Conference on": "Proc. Int. Conf.",
    "Annual Symposium on": "Ann. Symp.",
    "Journal of": "J.",
    "Transactions on": "Trans.",
    "Workshop on": "Wkshp.",
}
VENUE_FIELDS = [
    "Artificial",
    "Applied",
    "Computational",
    "Experimental",
    "Mathematical",
    "Practical",
    "Statistical",
]
VENUE_TOPICS = _words(
    "Data Documents Evidence Inference Knowledge Language Learning Perception Reasoning Records"
)


def table(words: Iterable[str]) -> Column:
    """The words as an object array, so that codes index it."""
    return np.array(list(words), dtype=object)


def combine(*parts: Sequence[str]) -> list[str]:
    """Every concatenation once, in a scattered but fixed order: neighbours in rank should not look alike."""
    words = list(dict.fromkeys("".join(pieces) for pieces in product(*parts)))
    stride = 7919  # a prime that divides none of our table sizes, so each word is met exactly once
    return [words[rank * stride % len(words)] for rank in range(len(words))]


@cache
def first_names() -> Column:
    generated = combine(FIRST_NAME_STARTS, FIRST_NAME_ENDS)
    return table(dict.fromkeys(COMMON_FIRST_NAMES + generated))


@cache
def surnames() -> Column:
    generated = combine(SURNAME_STARTS, SURNAME_MIDDLES, SURNAME_ENDS)
    return table(dict.fromkeys(COMMON_SURNAMES + generated))


@cache
def cities() -> Column:
    return table(combine(PLACE_STARTS, PLACE_ENDS))


@cache
def streets() -> tuple[Column, Column]:
    """Street names in full and with the kind abbreviated, at the same codes."""
    pairs = [(word, kind) for kind in STREET_KINDS for word in STREET_WORDS]
    return (
        table(f"{word} {kind}" for word, kind in pairs),
        table(f"{word} {STREET_KINDS[kind]}" for word, kind in pairs),
    )


@cache
def birth_dates() -> Column:
    days = np.arange(np.datetime64("1930-01-01"), np.datetime64("2010-01-01"))
    return table(days.astype(str).tolist())


@cache
def numbers(digits: int) -> Column:
    """Zero-padded numbers of that many digits."""
    return table(f"{number:0{digits}d}" for number in range(10**digits))


@cache
def venues() -> tuple[Column, Column]:
    """Venue names in full and abbreviated, at the same codes."""
    parts = list(product(VENUE_FIELDS, VENUE_TOPICS, VENUE_KINDS))
    return (
        table(f"{kind} {field} {topic}" for field, topic, kind in parts),
        table(f"{VENUE_KINDS[kind]} {field[:4]}. {topic[:4]}." for field, topic, kind in parts),
    )


@cache
def companies() -> tuple[Column, Column, Column]:
    """Names of companies in full and without their legal form, and their domains, at the same codes."""
    trades = [COMPANY_TRADES[rank % len(COMPANY_TRADES)] for rank in range(len(PLACE_STARTS))]
    forms = [COMPANY_FORMS[rank % len(COMPANY_FORMS)] for rank in range(len(PLACE_STARTS))]
    parts = list(zip(PLACE_STARTS, trades, forms, strict=True))
    return (
        table(f"{name} {trade} {form}" for name, trade, form in parts),
        table(f"{name} {trade}" for name, trade, _ in parts),
        table(f"{name.lower()}.example" for name, _, _ in parts),
    )
