"""Settings of Splink become a spec: as Splink itself writes them, and as a person may have damaged them."""

from __future__ import annotations

import json
import logging

import pytest

from product_cases import done, write_csv
from scdp import Spec
from scdp.errors import InputError


def settings(*conditions: str, **more: object) -> dict:
    levels = [{"sql_condition": condition} for condition in conditions]
    return {"comparisons": [{"output_column_name": "c", "comparison_levels": levels}]} | more


def spec_of(tmp_path, content) -> Spec:
    path = tmp_path / "splink.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return Spec.from_toml(path)


# What the comparison library of Splink 5 writes for DuckDB, shortened.
WRITTEN = {
    "jaro_winkler(name)": 'jaro_winkler_similarity("name_l", "name_r") >= 0.92',
    "edit(street)": 'levenshtein("street_l", "street_r") <= 1',
    "date(dob)": "ABS(EPOCH(try_strptime(\"dob_l\", '%Y-%m-%d')) - EPOCH(try_strptime(\"dob_r\", '%Y-%m-%d'))) <= 9.0",
    "exact(city)": '"city_l" = "city_r"',
    "email(email)": "regexp_extract(\"email_l\", '^[^@]+', 0) = regexp_extract(\"email_r\", '^[^@]+', 0)",
    "code(zip)": "regexp_extract(\"zip_l\", '^[A-Za-z]{1,2}', 0) = regexp_extract(\"zip_r\", '^[A-Za-z]{1,2}', 0)",
    "set_overlap(authors)": 'array_length(list_intersect("authors_l", "authors_r")) >= 1',
    "token_set(title)": 'jaccard("title_l", "title_r") >= 0.8',
    "absolute(year)": 'abs("year_l" - "year_r") <= 1',
    "geo(lat + lon)": 'acos(sin(radians("lat_l")) * sin(radians("lat_r")) * cos(radians("lon_r" - "lon_l"))) <= 1',
    "person_name(first + last)": 'jaro_winkler_similarity("first_l", "first_r") >= 0.9 AND "last_l" = "last_r"',
    "edit(bare)": "levenshtein(bare_l, bare_r) <= 2",
    "edit(on spark)": "levenshtein(`on spark_l`, `on spark_r`) <= 2",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_comparison_becomes_its_counterpart(name, tmp_path):
    assert spec_of(tmp_path, settings(WRITTEN[name])).names == (name,)


def test_levels_about_missing_cells_say_nothing_and_ids_are_taken_over(tmp_path):
    found = settings('"city_l" = "city_r"', unique_id_column_name="nr")
    missing = {"sql_condition": 'try_strptime("city_l", "x") IS NULL', "is_null_level": True}
    found["comparisons"][0]["comparison_levels"].insert(0, missing)
    spec = spec_of(tmp_path, found)
    assert (spec.names, spec.id) == (("exact(city)",), "nr")


def test_what_splink_itself_writes_is_read(tmp_path, caplog):
    library = pytest.importorskip("splink.comparison_library", reason="Splink is not installed")
    from splink import SettingsCreator, block_on

    made = SettingsCreator(
        link_type="link_only",
        unique_id_column_name="rec",
        blocking_rules_to_generate_predictions=[block_on("surname")],
        comparisons=[
            library.NameComparison("first_name"),
            library.DateOfBirthComparison("dob", input_is_string=True),
            library.PostcodeComparison("postcode"),
            library.ForenameSurnameComparison("forename", "last"),
            library.CosineSimilarityAtThresholds("vector", [0.9]),
        ],
    )
    with caplog.at_level(logging.INFO, "scdp"):
        spec = spec_of(tmp_path, made.create_settings_dict("duckdb"))
    assert spec.names == ("jaro_winkler(first_name)", "date(dob)", "code(postcode)", "person_name(forename + last)")
    assert "comparison 5 (vector) has no counterpart and is left out" in caplog.text
    assert "scdp link" in caplog.text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "no settings of Splink"),
        ('{"comparisons": 3}', "no settings of Splink"),
        ('{"comparisons": [3]}', "comparison 1 has no list of levels"),
        ('{"comparisons": [{"comparison_levels": [3]}]}', "comparison 1 has no list of levels"),
        ('{"comparisons": []}', "no comparison of these settings has a counterpart"),
        ('{"comparisons": [], "unique_id_column_name": 3}', "must be the name of a column"),
    ],
)
def test_what_is_not_understood_is_one_sentence(content, reason, tmp_path):
    path = tmp_path / "splink.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=reason) as caught:
        Spec.from_toml(path)
    assert "\n" not in str(caught.value)


def test_the_command_line_takes_settings_in_place_of_a_spec(tmp_path):
    rows = [{"nr": str(k), "city": city} for k, city in enumerate(["Ulm", "Ulm", "Bonn", "Jena"])]
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "splink.json").write_text(
        json.dumps(settings(WRITTEN["exact(city)"], unique_id_column_name="nr")), encoding="utf-8"
    )
    target = tmp_path / "spec.toml"
    done("fit", tmp_path / "a.csv", "--spec", tmp_path / "splink.json", "--write-spec", target)
    written = Spec.from_toml(target)
    assert (written.names, written.id) == (("exact(city)",), "nr")
