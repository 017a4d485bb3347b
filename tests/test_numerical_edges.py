"""Numbers at the edges of floating point, and data with nothing in it: a right or a clearly refused result, no NaN."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import numpy as np
import pytest

from product_cases import fitted_folder, run
from scdp import SCDP, EntityResolver, compare
from scdp.chains import run as run_module
from scdp.chains.arithmetic import choose
from scdp.chains.run import sweep
from scdp.compare.comparison import learned_scale
from scdp.compare.distances import safe_unit
from scdp.errors import InputError, NumericalError, UnitsWarning
from scdp.io.atomic import read_sealed
from scdp.metrics import rand_index
from scdp.posterior.recorder import ConvergenceWarning

MODELS = {"scdp1": {"model": "scdp1", "n_chains": 2, "n_sweeps": 40}, "resolver": {}}
SEED = 0


def three_groups(scale: float = 1.0, n: int = 10) -> tuple[Any, Any]:
    """Three groups far apart, in two features."""
    rng = np.random.default_rng(SEED)
    centres = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], n, axis=0)
    return (centres + 0.3 * rng.standard_normal(centres.shape)) * scale, np.repeat([0, 1, 2], n)


def fitted(name: str, rows: Any, clusters: Any, **settings: Any) -> tuple[SCDP, list[str]]:
    """A model, and the warnings that came with it beside those on convergence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind = EntityResolver if name == "resolver" else SCDP
        model = kind(random_state=SEED, **(MODELS[name] | settings)).fit(rows, clusters)
    return model, [str(each.message) for each in caught if not issubclass(each.category, ConvergenceWarning)]


def check_sound(model: SCDP, rows: Any) -> None:
    """Labels for all rows, and no number in draws, traces or probabilities that is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of one row or two, units mean little, and saying so is no fault.
        for allowed in (ConvergenceWarning, UnitsWarning):
            warnings.simplefilter("ignore", allowed)
        labels, posterior = model.predict_with_posterior(rows)
    assert labels.shape == (len(rows),)
    assert labels.min() >= 0
    for each in (posterior, model.posterior_):
        if each is None:
            continue
        assert all(np.isfinite(values).all() for values in each.traces.values())
        together = each.co_clustering_matrix()
        assert np.isfinite(together).all()
        assert ((together >= 0) & (together <= 1 + 1e-9)).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_the_unit_of_the_data_does_not_matter(name, scale):
    plain, clusters = three_groups()
    model, said = fitted(name, plain * scale, clusters)
    assert not said
    check_sound(model, plain * scale)
    usual = fitted(name, plain, clusters)[0]
    assert rand_index(usual.predict(plain), model.predict(plain * scale)) == 1.0


@pytest.mark.parametrize("name", MODELS)
def test_scales_from_one_end_to_the_other_in_one_table(name):
    rows, clusters = three_groups()
    mixed = rows * np.array([1e-300, 1e300])
    model, said = fitted(name, mixed, clusters)
    assert not said
    check_sound(model, mixed)
    found = model.predict(mixed)
    # Three clusters are few to learn from: two may be taken for one, but neither feature is lost.
    assert len(np.unique(found)) >= 2
    assert all(len(np.unique(found[clusters == group])) == 1 for group in range(3))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("value", [0.0, 0.1, 7.0, 1e300, -1e-300])
def test_a_constant_feature_says_nothing(name, value):
    rows, clusters = three_groups()
    wider = np.column_stack([rows, np.full(len(rows), value)])
    model, said = fitted(name, wider, clusters)
    assert len(said) <= 1
    check_sound(model, wider)
    found = model.predict(wider)
    # Three clusters teach the resolver little: it may take two of the groups for one.
    assert len(np.unique(found)) in ((2, 3) if name == "resolver" else (3,))
    assert all(len(np.unique(found[clusters == group])) == 1 for group in range(3))


@pytest.mark.parametrize("name", MODELS)
def test_records_that_are_all_the_same(name):
    _, clusters = three_groups()
    same = np.full((len(clusters), 2), 3.0)
    model, said = fitted(name, same, clusters)
    assert len(said) <= 2
    check_sound(model, same)


@pytest.mark.parametrize("name", MODELS)
def test_one_record_to_cluster(name):
    rows, clusters = three_groups()
    model = fitted(name, rows, clusters)[0]
    check_sound(model, rows[:1])
    assert len(model.predict(rows[:1])) == 1


@pytest.mark.parametrize("name", MODELS)
def test_one_record_to_learn_from(name):
    try:
        model, said = fitted(name, [[1.0, 2.0]], [0])
    except (InputError, ValueError) as error:
        refusal = str(error)
    else:
        assert len(said) <= 2
        check_sound(model, np.array([[1.0, 2.0], [3.0, 4.0]]))
        return
    assert "\n" not in refusal
    assert refusal


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_pairs", [0, 1, 2])
def test_as_many_clusters_as_records(name, n_pairs):
    """K near n: all clusters of one record, but for a few of two."""
    rng = np.random.default_rng(SEED)
    rows = rng.standard_normal((24, 2)) * 20
    clusters = np.arange(24)
    for k in range(n_pairs):
        rows[2 * k + 1], clusters[2 * k + 1] = rows[2 * k] + 0.01, clusters[2 * k]
    try:
        model, said = fitted(name, rows, clusters)
    except InputError as error:
        refusal = str(error)
    else:
        assert len(said) <= 2
        check_sound(model, rows)
        return
    assert n_pairs == 0
    assert refusal


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(name, value):
    rows, clusters = three_groups()
    rows[4, 1] = value
    with pytest.raises(ValueError, match=r"infinity|not finite|infinite"):
        fitted(name, rows, clusters)


@pytest.mark.parametrize("name", MODELS)
def test_one_number_far_beyond_the_others(name):
    rows, clusters = three_groups()
    rows[0, 0] = 1e300
    try:
        model, said = fitted(name, rows, clusters)
    except InputError as error:
        refusal = str(error)
    else:
        assert len(said) <= 2
        check_sound(model, rows)
        return
    assert refusal


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_distances_at_the_edges(name, factor):
    rows, clusters = three_groups(n=6)
    apart = np.abs(rows[:, None] - rows[None]) * factor
    try:
        model, said = fitted(name, apart, clusters, metric="precomputed")
    except InputError as error:
        refusal = str(error)
    else:
        assert len(said) <= 2
        for values in model.posterior_.traces.values() if model.posterior_ is not None else ():
            assert np.isfinite(values).all()
        return
    assert refusal


@pytest.mark.parametrize("largest", [1e-300, 1.0, 1e300])
def test_units_are_powers_of_two(largest):
    unit = safe_unit(largest)
    assert 1 <= largest / unit < 2
    assert np.frexp(unit)[0] == 0.5
    assert safe_unit(0.0) > 0


def test_distances_of_numbers_are_finite_whatever_the_scale():
    numbers = ["1e308", "-1e308", "1e-308", "0", "5", "1e300"]
    for scale in (5e-324, 1.0, 1e308):
        found = compare.absolute("x", scale=scale).block(numbers)
        assert np.isfinite(found).all()
        assert (np.diag(found) == 0).all()
    assert np.isfinite(learned_scale(np.array([1e308, -1e308, 0.0])))


@pytest.mark.parametrize(
    "weights", [[np.nan], [0.0, np.nan, -1.0], [-np.inf, -np.inf], [np.inf, 0.0], [-900.0, np.nan]]
)
def test_nothing_is_drawn_from_weights_that_are_none(weights):
    rng = np.random.default_rng(0)
    with pytest.raises(FloatingPointError, match="a weight is no number"):
        choose(rng, np.array(weights), len(weights))
    assert rng.random() == np.random.default_rng(0).random()


def test_impossible_choices_are_never_drawn():
    rng = np.random.default_rng(0)
    assert {choose(rng, np.array([-np.inf, 0.0, -np.inf, -2000.0]), 4) for _ in range(50)} == {1}


@pytest.mark.parametrize("where", ["checkpoint", "nowhere"])
@pytest.mark.parametrize("broken", ["precision", "mean_variance"])
def test_a_run_whose_numbers_break_down_says_so_and_keeps_its_state(where, broken, tmp_path, monkeypatch):
    """A sweep, the seventh, leaves a state with a number that is none."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    seen = []

    def breaking(rng, state, *rest):
        seen.append((state, rng.bit_generator.state))
        state, info = sweep(rng, state, *rest)
        return (state._replace(**{broken: getattr(state, broken) * np.nan}) if len(seen) == 7 else state), info

    monkeypatch.setattr(run_module, "sweep", breaking)
    kept = where == "checkpoint"
    model = SCDP("scdp1", n_chains=1, n_sweeps=12, random_state=0)
    if kept:
        model.keep_checkpoints(tmp_path / "kept")
    message = f"chain 1, sweep 7: {broken} is no number, so nothing was drawn from it; .* please send it with a report"
    with pytest.raises(NumericalError, match=message):
        model.fit(np.random.default_rng(1).normal(size=(12, 2)))
    (path,) = tmp_path.rglob("broken-chain1-*.npz")
    assert path.parent == tmp_path / ("kept/fit" if kept else "temporary")
    about, arrays = read_sealed(path)
    state, generator = seen[6]
    assert about["sweep"] == 7
    assert about["generator"] == generator
    assert (arrays["cluster"] == state.cluster).all()
    assert (arrays["precision"] == state.precision).all()


def test_the_command_line_tells_of_it_in_one_sentence(tmp_path, monkeypatch):
    def breaking(*_):
        raise FloatingPointError("a weight is no number")

    made = fitted_folder()
    monkeypatch.setattr(run_module, "sweep", breaking)
    result = run("cluster", made / "model", made / "test.csv", "--out", tmp_path / "c.csv")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "chain 1, sweep 1: a weight is no number" in result.stderr.strip().splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["c.csv.checkpoint"]
