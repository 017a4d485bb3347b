"""The runs whose results are recorded, by section and name. A case is a function that gives arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from digests.adapter import Results, run_baseline, run_chains, run_resolver
from digests.rows import MAKE, Rows, make_table, make_vectors

Case = Callable[[], Results]

SHORT = {"n_chains": 2, "n_sweeps": 12}
VARIANTS = {
    "cdp": ("cdp", {}),
    "scdp1": ("scdp1", {}),
    "scdp2": ("scdp2", {}),
    "scdp3-normalized": ("scdp3", {"conditioning": "normalized"}),
    "scdp3-mean": ("scdp3", {"conditioning": "mean"}),
    "scdp3-published": ("scdp3", {"conditioning": "published"}),
}
ON_DISTANCES = [name for name in VARIANTS if name != "scdp3-published"]
SETTINGS = {
    "learn variance": {"mean_variance": "learn"},
    "start in one": {"init": "one"},
    "start in singletons": {"init": "singletons"},
    "start by k-means": {"init": "kmeans"},
    "start as given": {"init": [0] * 12 + [1] * 12},
    "no split-merge": {"split_merge": 0},
    "not standardized": {"standardize": False},
    "sixteen auxiliary values": {"n_auxiliary": 16},
}


def chain_case(variant: str, rows: Rows, new: Rows | None = None, **settings: object) -> Case:
    model, own = VARIANTS[variant]
    return partial(run_chains, model, rows, new, SHORT | own | settings)


def chain_cases() -> dict[str, Case]:
    cases = {}
    for name in VARIANTS:
        for scheme in ("collapsed", "paper"):
            cases[f"{name} vectors {scheme}"] = chain_case(name, make_vectors(), make_vectors(2, 3), scheme=scheme)
        cases[f"{name} vectors groups"] = chain_case(
            name, make_vectors().with_groups(), make_vectors(2, 3).with_groups()
        )
        cases[f"{name} vectors share"] = chain_case(
            name, make_vectors(), make_vectors(2, 3).with_known(), share_clusters=True
        )
    for name in ON_DISTANCES:
        for kind in ("distances", "records"):
            rows, new = MAKE[kind](), MAKE[kind](2, 3)
            cases[f"{name} {kind}"] = chain_case(name, rows, new)
            cases[f"{name} {kind} groups"] = chain_case(name, rows.with_groups(), new.with_groups())
    for name in ("scdp1", "scdp2", "scdp3-normalized"):
        cases[f"{name} records known"] = chain_case(name, make_table(), make_table(2, 4).with_known())
        cases[f"{name} records share"] = chain_case(name, make_table(), make_table(2, 4), share_clusters=True)
        cases[f"{name} vectors two workers"] = chain_case(name, make_vectors(), make_vectors(2, 3), n_jobs=2)
    # Not scdp2: with three clusters its Gamma shapes are 1/2 but for the last digit, on which draws then depend.
    for name in ("scdp1", "scdp3-normalized"):
        cases[f"{name} vectors unsupervised"] = chain_case(name, make_vectors().with_none_known())
    for name, settings in SETTINGS.items():
        cases[f"scdp1 {name}"] = chain_case("scdp1", make_vectors(), **settings)
    cases["scdp3-mean learn rate"] = chain_case("scdp3-mean", make_vectors(), rate="learn")
    cases["scdp3-normalized distances learn rate"] = chain_case("scdp3-normalized", MAKE["distances"](), rate="learn")
    return cases


def resolver_cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for kind, make in MAKE.items():
        rows, new = make(), make(2, 3)
        cases[kind] = partial(run_resolver, rows, new, {})
        cases[f"{kind} groups"] = partial(run_resolver, rows.with_groups(), new.with_groups(), {})
        cases[f"{kind} known"] = partial(run_resolver, rows, new.with_known(), {})
    cases["records share"] = partial(run_resolver, make_table(), make_table(2, 4), {"share_clusters": True})
    cases["records two workers"] = partial(run_resolver, make_table(), make_table(2, 3), {"n_jobs": 2})
    cases["vectors trees"] = partial(run_resolver, make_vectors(1, 12), make_vectors(2, 3), {"boosted": True})
    for name, settings in {"candidates": {}, "candidates two workers": {"n_jobs": 2}}.items():
        rows, new = many_people()
        cases[f"records {name}"] = partial(run_resolver, rows, new, {"boosted": False} | settings, candidates=True)
    return cases


def many_people() -> tuple[Rows, Rows]:
    """More pairs of records than the candidate cases allow to be compared."""
    return make_table(1, 60, 3).with_all_known(), make_table(2, 60, 2).with_none_known()


def baseline_cases() -> dict[str, Case]:
    rows, new = make_vectors(1, 8, 5, missing=0.0).with_all_known(), make_vectors(2, 4, 5, missing=0.0)
    names = (
        "Binary", "ClusterSVM", "Coarse", "DPMixture", "Fine", "GraphPartition", "ModernBinary", "OracleKMeans",
        "XingK",
    )  # fmt: skip
    return {name: partial(run_baseline, name, rows, new, {}) for name in names}


CASES: dict[str, dict[str, Case]] = {
    "chains": chain_cases(),
    "resolver": resolver_cases(),
    "baselines": baseline_cases(),
}
