"""The server of the pages: requests enter, and only those with the token, from our own pages, are answered.

It listens on this machine unless told otherwise. Everything that a page needs comes from here; nothing is fetched from
elsewhere, and the browser is told to refuse it.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from scdp.errors import InputError, MissingExtraError
from scdp.review import Person, Session, pages
from scdp.review.view import TableView

LONGEST_BODY = 1 << 20
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Without any referrer browsers would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MOST_PEOPLE = 1_000


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@dataclass(frozen=True, eq=False)
class Site:
    """What the pages show, and who may see it.

    Parameters
    ----------
    title : str
        The heading of all pages.
    session : Session
        Questions and answers.
    view : TableView
        The records.
    preset : bool
        Whether questions show the groups of the answer under review.
    token : str
        Opens the pages.
    hosts : tuple of str
        The names, with the port, by which the server may be called.
    who : str, optional
        The name of people who give none.
    """

    title: str
    session: Session
    view: TableView
    preset: bool
    token: str
    hosts: tuple[str, ...]
    who: str | None = None

    @property
    def cookie(self) -> str:
        """Its name holds the port: cookies are shared by all servers of a machine."""
        return f"scdp-{self.hosts[0].rsplit(':', 1)[-1]}"

    def check(self, request: Any) -> tuple[str, bool]:
        """The key of a person and whether it is new; strange hosts, origins and tokens are refused."""
        headers = request.headers
        if headers.get("host", "") not in self.hosts:
            raise Refused(403, "This server is not called by that name.")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            raise Refused(403, "This request comes from another site.")
        if request.method == "POST" and origin is None:
            raise Refused(403, "A request that changes something must say where it comes from.")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and request.method == "POST":
            raise Refused(403, "This request comes from another site.")
        given = request.query_params.get("token")
        if given is not None and self._is_token(given):
            return secrets.token_urlsafe(12), True
        # Other servers of this machine may have left cookies of any name, which are passed over.
        token, _, key = request.cookies.get(self.cookie, "").partition(".")
        if not self._is_token(token) or not key or len(key) > 40:
            raise Refused(403, "Open the address that the command has printed: it holds the token.")
        return key, False

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def person(self, key: str) -> Person:
        """Who asks."""
        if key not in self.session.people and len(self.session.people) >= MOST_PEOPLE:
            raise Refused(429, "Too many people are here.")
        return self.session.person(key, self.who)


def make_app(site: Site) -> Any:
    """The application, for any server of the kind (ASGI)."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, RedirectResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("starlette", "review", "the review page") from error

    def respond(text: str, code: int = 200) -> Any:
        return HTMLResponse(text, code, headers=HEADERS)

    def go(place: str) -> Any:
        return RedirectResponse(place, 303, headers=HEADERS)

    Handler = Callable[[Any, str], Any]

    def guarded(work: Handler, read_body: bool = False) -> Callable[[Any], Awaitable[Any]]:
        """Check the request, then work in a thread: other requests go on."""

        async def handle(request: Request) -> Any:
            try:
                key, is_new = site.check(request)
                if is_new:
                    there = go("/")
                    there.set_cookie(site.cookie, f"{site.token}.{key}", httponly=True, samesite="strict")
                    return there
                body = await _read_form(request) if read_body else {}
                site.person(key)
                request.state.form = body
                return await run_in_threadpool(work, request, key)
            except Refused as refused:
                return respond(pages.error_page(refused.code, refused.sentence), refused.code)
            except InputError as error:
                return respond(pages.error_page(400, str(error)), 400)

        return handle

    def show_question(request: Any, key: str) -> Any:
        posed = site.session.pose(key)
        person = site.person(key)
        return respond(pages.question_page(site.title, site.session, site.view, person, posed, site.preset))

    def show_status(request: Any, key: str) -> Any:
        return respond(pages.standing(site.session))

    def take_answer(request: Any, key: str) -> Any:
        form = request.state.form
        number = _number(_one(form, "question"))
        posed = site.person(key).open
        if posed is not None and posed.number == number:
            blocks = _blocks(form, len(posed.question.rows))
            _try(site, key, lambda: site.session.answer(key, number, blocks))
        return go("/")

    def take_back(request: Any, key: str) -> Any:
        site.session.undo(key)
        return go("/")

    def take_name(request: Any, key: str) -> Any:
        _try(site, key, lambda: site.session.rename(key, _one(request.state.form, "name")))
        return go("/")

    def show_clusters(request: Any, key: str) -> Any:
        words = request.query_params.get("q", "")[:200]
        page = _number(request.query_params.get("page", "0"))
        rows = site.view.search(words) if words.strip() else site.session.least_sure
        last = max((len(rows) - 1) // pages.ROWS_A_PAGE, 0)
        page = min(page, last)
        some = rows[page * pages.ROWS_A_PAGE : (page + 1) * pages.ROWS_A_PAGE]
        return respond(
            pages.clusters_page(site.title, site.session, site.view, site.person(key), words, some, page, last)
        )

    def show_cluster(request: Any, key: str) -> Any:
        row = _row(site, request.query_params.get("row", ""))
        return respond(pages.cluster_page(site.title, site.session, site.view, site.person(key), row))

    def show_pair(request: Any, key: str) -> Any:
        rows = _row(site, request.query_params.get("a", "")), _row(site, request.query_params.get("b", ""))
        if rows[0] == rows[1]:
            raise Refused(400, "Give two different records.")
        return respond(pages.pair_page(site.title, site.session, site.view, site.person(key), rows))

    def take_decision(request: Any, key: str) -> Any:
        form = request.state.form
        rows, blocks = decided(site, form)
        _try(site, key, lambda: site.session.decide(key, rows, blocks))
        return go(f"/cluster?row={rows[0]}")

    def show_file(name: str, kind: str) -> Handler:
        content = files("scdp.review").joinpath(name).read_text(encoding="utf-8")
        return lambda request, key: Response(content, media_type=kind, headers=HEADERS)

    get, post = ["GET"], ["POST"]
    return Starlette(
        routes=[
            Route("/", guarded(show_question), methods=get),
            Route("/status", guarded(show_status), methods=get),
            Route("/answer", guarded(take_answer, True), methods=post),
            Route("/undo", guarded(take_back, True), methods=post),
            Route("/name", guarded(take_name, True), methods=post),
            Route("/clusters", guarded(show_clusters), methods=get),
            Route("/cluster", guarded(show_cluster), methods=get),
            Route("/pair", guarded(show_pair), methods=get),
            Route("/decide", guarded(take_decision, True), methods=post),
            Route("/favicon.ico", lambda request: Response(status_code=204, headers=HEADERS), methods=get),
            Route("/style.css", guarded(show_file("style.css", "text/css")), methods=get),
            Route("/page.js", guarded(show_file("page.js", "text/javascript")), methods=get),
        ]
    )


async def _read_form(request: Any) -> dict[str, list[str]]:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > LONGEST_BODY:
            raise Refused(413, "That is more than an answer can be.")
    try:
        return parse_qs(content.decode(), keep_blank_values=True, max_num_fields=20_000)
    except ValueError as error:
        raise Refused(400, "That is not the form of a page.") from error


def _try(site: Site, key: str, work: Callable[[], object]) -> None:
    """Do the work; what is wrong with it is told on the next page."""
    try:
        work()
    except InputError as error:
        site.person(key).note = str(error)


def _one(form: dict[str, list[str]], name: str) -> str:
    found = form.get(name, [])
    if len(found) != 1:
        raise Refused(400, f"The form lacks {name!r}.")
    return found[0]


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Refused(400, "That is no number.")
    return int(text)


def _row(site: Site, text: str) -> int:
    row = _number(text)
    if row >= len(site.view.ids):
        raise Refused(404, "There is no such record.")
    return row


def _blocks(form: dict[str, list[str]], n: int) -> list[int] | None:
    """The block of each record by the form of a question; None = cannot tell."""
    action = _one(form, "action")
    if action == "cannot":
        return None
    if action == "same":
        return [0] * n
    if action == "different":
        return list(range(n))
    if action != "shown":
        raise Refused(400, "There is no such answer.")
    blocks = [_number(_one(form, f"group-{place}")) for place in range(n)]
    if max(blocks) >= n:
        raise Refused(400, "There is no such group.")
    return blocks


def decided(site: Site, form: dict[str, list[str]]) -> tuple[list[int], list[int]]:
    """The records that somebody decided about, and the block of each."""
    action = _one(form, "action")
    ticked = [_row(site, text) for text in form.get("row", [])]
    if action in ("same", "different"):
        if len(set(ticked)) != 2:
            raise Refused(400, "Give two records.")
        return ticked, [0, int(action == "different")]
    home = _row(site, _one(form, "home"))
    members = site.session.beliefs.members_of(home).tolist()
    if action == "merge":
        others = [row for one in ticked for row in site.session.beliefs.members_of(one).tolist()]
        rows = list(dict.fromkeys([*members, *others]))
        if len(rows) == len(members):
            raise Refused(400, "These are one cluster already.")
        return rows, [0] * len(rows)
    if action == "accept" and len(members) > 1:
        return members, [0] * len(members)
    if action == "split":
        if not ticked or not set(ticked) < set(members):
            raise InputError("Tick some of the records of the cluster, and not all: those are split off.")
        rows = [row for row in members if row not in ticked] + ticked
        return rows, [int(row in ticked) for row in rows]
    raise Refused(400, "There is no such decision.")


def listen(host: str, port: int) -> socket.socket:
    """A socket for the server; with port 0 any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        # From here on browsers wait for an answer, also while the server is still starting.
        taken.listen(128)
    except OSError as error:
        taken.close()
        reason = error.strerror or error
        raise InputError(f"{host}:{port}: nothing can listen there ({reason}); give another --port") from error
    return taken


def names_of(host: str, port: int) -> tuple[str, ...]:
    """The names by which browsers may call a server: on this machine also localhost."""
    shown = f"[{host}]" if ":" in host else host
    here = host in ("127.0.0.1", "::1", "localhost")
    return (f"{shown}:{port}", *((f"localhost:{port}", f"127.0.0.1:{port}") if here else ()))


def address_of(site: Site) -> str:
    """What to open in a browser."""
    return f"http://{site.hosts[0]}/?token={site.token}"


def serve(site: Site, taken: socket.socket) -> None:
    """Answer requests until the process is told to end."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "review", "the review page") from error
    site.session.start()
    config = uvicorn.Config(make_app(site), log_level="error", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[taken])
    finally:
        site.session.stop()
