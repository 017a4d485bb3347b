from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from html_checker import Checker
from review_site import TOKEN, Visitor, make_site, running
from scdp.table.decisions import read_decisions

# A port of its own: 80 is left out of addresses by clients.
HOST = "127.0.0.1:8123"
ORIGIN = {"origin": f"http://{HOST}"}


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path, port=8123)


@pytest.fixture
def client(site):
    client = Visitor(site, f"http://{HOST}")
    client.get("/", params={"token": TOKEN})
    return client


def question_of(page: str) -> str:
    return re.search(r'name="question" value="(\d+)"', page)[1]


def test_a_page_shows_all_cells_and_obeys_none(client, site):
    page = client.get("/").text
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "\\u202e" in page
    assert "\u202e" not in page


@pytest.mark.parametrize("path", ["/", "/status", "/clusters", "/cluster?row=0", "/pair?a=0&b=1", "/page.js"])
def test_without_the_token_nothing_is_shown(site, path):
    stranger = Visitor(site, f"http://{HOST}")
    assert stranger.get(path).status_code == 403
    assert stranger.get(path, headers={"cookie": f"{site.cookie}=wrong.key"}).status_code == 403
    assert stranger.get("/", params={"token": "wrong"}).status_code == 403


@pytest.mark.parametrize("other", ["a/b=1", "{}=1", "=", "no value", 'a="', "a=1,b", "\xe9=\xff"])
def test_cookies_of_other_servers_of_the_machine_are_passed_over(site, other):
    stranger = Visitor(site, f"http://{HOST}")
    own = f"{site.cookie}={TOKEN}.key"
    for cookies, code in ((f"{other}; {own}", 200), (f"{own}; {other}", 200), (other, 403)):
        assert stranger.get("/", headers={"cookie": cookies.encode("latin-1")}).status_code == code


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:81", "", "127.0.0.1.evil.example:8123"])
def test_a_strange_host_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("path", ["/answer", "/undo", "/name", "/decide"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:81", None])
def test_a_strange_origin_changes_nothing(client, site, path, origin):
    headers = {} if origin is None else {"origin": origin}
    assert client.post(path, data={"action": "same"}, headers=headers).status_code == 403
    assert not site.session.log.path.exists()


def test_pages_forbid_all_that_is_not_theirs(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["cache-control"] == "no-store"
    cookie = client.get("/", follow=False, params={"token": TOKEN}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_answers_by_groups_are_kept(client, site):
    page = client.get("/").text
    n = len(re.findall(r'class="cell">\d+\. ', page))
    data = {"question": question_of(page), "action": "shown"} | {f"group-{k}": "0" for k in range(n - 1)}
    data[f"group-{n - 1}"] = str(n - 1)
    client.post("/answer", data=data, headers=ORIGIN)
    kinds = [(one.decision, len(one.ids)) for one in read_decisions(site.session.log.path)]
    assert kinds == [("same", n - 1), ("different", 2)]
    assert site.session.log.decisions[0].who == "tester"
    client.post("/undo", data={}, headers=ORIGIN)
    assert read_decisions(site.session.log.path) == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"question": "1"},
        {"question": "x", "action": "same"},
        {"question": "1", "action": "eat"},
        {"question": "1", "action": "shown"},
        {"question": "1", "action": "shown", "group-0": "0", "group-1": "7", "group-2": "0"},
    ],
)
def test_a_form_that_is_none_is_refused(client, site, data):
    client.get("/")
    assert client.post("/answer", data=data, headers=ORIGIN).status_code == 400
    assert not site.session.log.path.exists()


@pytest.mark.parametrize(
    "path", ["/cluster?row=999", "/cluster?row=-1", "/cluster?row=x", "/pair?a=0&b=0", "/clusters?page=x", "/nowhere"]
)
def test_what_is_not_there_is_refused(client, path):
    assert client.get(path).status_code in (400, 404)


def test_a_cluster_is_split_and_merged(client, site):
    beliefs = site.session.beliefs
    home = next(row for row in range(36) if len(beliefs.members_of(row)) > 1)
    members = beliefs.members_of(home).tolist()
    client.post("/decide", data={"home": home, "row": [members[-1]], "action": "split"}, headers=ORIGIN)
    assert members[-1] not in site.session.beliefs.members_of(home)
    other = next(row for row in range(36) if row // 3 != home // 3)
    client.post("/decide", data={"home": home, "row": [other], "action": "merge"}, headers=ORIGIN)
    assert other in site.session.beliefs.members_of(home)
    assert f"/cluster?row={home}" in client.get("/clusters").text or len(site.session.beliefs.members_of(home)) > 1
    for _ in range(2):
        client.post("/undo", data={}, headers=ORIGIN)
    assert site.session.beliefs.members_of(home).tolist() == members


def test_a_contradiction_is_told_on_the_page(client, site):
    kept = client.post("/decide", data={"row": [0, 3], "action": "same"}, headers=ORIGIN).text
    assert "Kept." in kept
    refused = client.post("/decide", data={"row": [0, 3], "action": "different"}, headers=ORIGIN).text
    assert "contradicts" in refused
    assert "Kept." not in refused
    # It is said once.
    assert "contradicts" not in client.get("/").text
    assert len(read_decisions(site.session.log.path)) == 1


def test_search_finds_all_words_in_any_column(client, site):
    found = client.get("/clusters", params={"q": "person 2 city"}).text
    assert "r6" in found
    assert "r30" not in found
    assert site.view.search("") == []
    assert site.view.search("ALERT(20)") == [20]


def test_many_at_once_lose_nothing(tmp_path):
    """Two hundred requests of twenty people: no error, every answer is a line of the file, no question comes twice."""
    with running(tmp_path, n_blocks=60) as (site, address):
        home = address.split("/?")[0]
        origin = {"origin": home}

        def answer_some(number: int) -> tuple[int, int]:
            wrong = given = 0
            with httpx.Client(base_url=home, follow_redirects=True, timeout=60) as client:
                client.get(address)
                for _ in range(3):
                    page = client.get("/")
                    wrong += page.status_code != 200
                    if 'name="question"' in page.text:
                        data = {"question": question_of(page.text), "action": "different"}
                        wrong += client.post("/answer", data=data, headers=origin).status_code != 200
                        given += 1
                    wrong += client.get("/status").status_code != 200
            return wrong, given

        with ThreadPoolExecutor(20) as pool:
            results = list(pool.map(answer_some, range(20)))
        assert sum(wrong for wrong, _ in results) == 0
        assert sum(given for _, given in results) == 60
        kept = [one.ids for one in read_decisions(site.session.log.path)]
        assert len(kept) == 60
        assert len(set(kept)) == 60
