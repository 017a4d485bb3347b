"""The paper's published numbers as data: Tables 1 to 5 of its Section 7, and the running times it reports."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METRICS = ("ri", "p", "r", "f", "ced", "nes", "vi", "nvi")


def _table(text: str) -> Mapping[str, Mapping[str, float]]:
    rows = (line.split() for line in text.strip().splitlines())
    return MappingProxyType(
        {name: MappingProxyType(dict(zip(METRICS, map(float, cells), strict=True))) for name, *cells in rows}
    )


# Tables 1 to 4, by task and system.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "digits": _table("""
            coarse    .229 .229 1.00 .372 .725 .275 1.525 .765
            fine      .771 1.00 .000 .000 1.00 .008 4.975 .235
            kmeans    .760 .481 .656 .555 .350 .412 1.446 .778
            cdp       .886 .970 .016 .031 1.00 .000 4.237 .241
            binary    .921 .730 .497 .592 .455 .372 1.193 .805
            xingk     .821 .610 .605 .608 .245 .478 1.165 .821
            scdp1     .848 .668 .664 .666 .239 .483 1.176 .819
            scdp2     .854 .692 .659 .675 .227 .538 1.118 .828
            scdp3     .889 .761 .751 .756 .158 .710 0.791 .878
        """),
        "identity": _table("""
            coarse    .079 .079 1.00 .147 .749 .251 3.589 .395
            fine      .921 1.00 .000 .000 .000 .273 2.345 .605
            namematch .933 .545 1.00 .706 .405 .595 1.252 .789
            kmeans    .912 .451 .510 .479 .341 .373 1.919 .677
            cdp       .913 .480 .452 .466 .355 .360 2.031 .658
            binary    .855 .753 .801 .776 .389 .553 1.193 .808
            xingk     .916 .467 .423 .444 .378 .304 2.112 .644
            scdp1     .963 .764 .786 .775 .127 .761 0.806 .864
            scdp2     .971 .820 .814 .817 .111 .796 0.669 .887
            scdp3     .982 .875 .913 .894 .066 .876 0.423 .929
        """),
        "coreference": _table("""
            coarse    .003 .003 1.00 .006 .978 .021 5.950 .132
            fine      .997 1.00 .000 .000 1.00 .551 0.906 .868
            samehead  .999 .965 .899 .931 .019 .933 0.123 .982
            kmeans    .994 .297 .773 .429 .391 .524 1.059 .846
            cdp       .995 .273 .384 .319 .352 .418 1.265 .815
            binary    .999 .900 .893 .896 .040 .936 0.141 .979
            xingk     .998 .489 .802 .608 .308 .599 0.911 .883
            scdp1     .996 .409 .497 .449 .261 .564 0.938 .863
            scdp2     .997 .596 .717 .651 .203 .682 0.654 .904
            scdp3     .999 .804 .882 .841 .083 .861 0.284 .958
        """),
        "references": _table("""
            coarse    .118 .118 1.00 .205 .745 .255 2.977 .538
            fine      .882 1.00 .000 .000 .000 .105 3.456 .462
            kmeans    .862 .407 .461 .433 .392 .240 2.655 .577
            cdp       .850 .353 .379 .365 .449 .125 2.948 .531
            binary    .936 .804 .616 .686 .107 .721 0.762 .881
            xingk     .855 .369 .384 .377 .411 .180 2.807 .552
            scdp1     .892 .529 .507 .518 .319 .372 2.237 .643
            scdp2     .934 .696 .741 .718 .184 .641 1.382 .780
            scdp3     .952 .794 .782 .788 .125 .757 0.957 .847
        """),
    }
)

# Table 5 is the F of these systems, taken from Tables 1 to 4.
SUMMARY_SYSTEMS = ("binary", "xingk", "scdp1", "scdp2", "scdp3")

# Hours for one chain of ten thousand sweeps, as the text of Section 7 gives them.
CHAIN_HOURS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "digits": MappingProxyType({"scdp1": 2 / 3, "scdp2": 1.0, "scdp3": 5.0}),
        "identity": MappingProxyType({"scdp1": 24.0, "scdp2": 24.0, "scdp3": 72.0}),
        "coreference": MappingProxyType({"scdp1": 72.0, "scdp2": 72.0, "scdp3": 168.0}),
        "references": MappingProxyType({"scdp1": 24.0, "scdp2": 24.0, "scdp3": 72.0}),
    }
)
# The paper's chains of ten thousand sweeps each.
CHAINS: Mapping[str, int] = MappingProxyType(
    {"digits": 10, "identity": 50, "coreference": 50, "references": 50}
)
SWEEPS = 10_000
# Rounding to three digits explains less than this.
ROUNDING = 0.02


def find_published(task: str, system: str) -> dict[str, float] | None:
    """The paper's row for a task (a variant such as references-kearns has its parent's) and system, or None."""
    row = PUBLISHED[parent(task)].get(system)
    return None if row is None else dict(row)


def contradicting_rows() -> list[tuple[str, str, float, float]]:
    """Task, system, and the printed and the implied Rand index of rows that contradict Coarse of their own table."""
    rows = [(task, system) for task, table in PUBLISHED.items() for system in table]
    both = [(*row, PUBLISHED[row[0]][row[1]]["ri"], _implied_rand_index(*row)) for row in rows]
    return [row for row in both if abs(row[2] - row[3]) > ROUNDING]


def _implied_rand_index(task: str, system: str) -> float:
    """1 minus the share of pairs that are missed and of pairs that are wrongly together."""
    row, together = PUBLISHED[task][system], PUBLISHED[task]["coarse"]["p"]
    found = together * row["r"]
    return 1.0 - (together - found) - (found / row["p"] - found)


def parent(task: str) -> str:
    """The paper's task of which this one is a variant."""
    return task.split("-")[0]
