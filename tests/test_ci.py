"""`.ci/run` with stand-ins for `make` and the package manager: what it installs, what it asks for, what it survives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.posix

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
NEEDED = ("bash", "dirname", "env", "id")
# The stand-ins write what they are asked for to this file, named by an environment variable.
MAKE = 'echo "make $* browser=${SCDP_REQUIRE_BROWSER-} data=${SCDP_REQUIRE_DATA-}" >> "$ASKED"'
APT = 'echo "apt-get $*" >> "$ASKED"'
SUDO = 'echo sudo >> "$ASKED"; shift; exec "$@"'


@pytest.fixture
def machine(tmp_path):
    """A machine with nothing but a shell, `make`, and the stand-ins given by name."""

    def run(**stand_ins):
        programs = tmp_path / "programs"
        programs.mkdir()
        for name in NEEDED:
            if name not in stand_ins:
                (programs / name).symlink_to(shutil.which(name))
        for name, body in {"make": MAKE, **stand_ins}.items():
            path = programs / name.replace("_", "-")
            path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
            path.chmod(0o755)
        asked = tmp_path / "asked"
        asked.touch()
        done = subprocess.run(
            [programs / "bash", SCRIPT],
            env={"PATH": str(programs), "ASKED": str(asked)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return done, asked.read_text().splitlines()

    return run


def both_made(asked):
    return asked[-2:] == [f"make {target} browser=1 data=1" for target in ("check", "test")]


def test_nothing_is_installed_where_all_is_there(machine):
    done, asked = machine(google_chrome="", java="", apt_get=APT)
    assert done.returncode == 0
    assert len(asked) == 2
    assert both_made(asked)


def test_what_is_missing_is_installed_first(machine):
    done, asked = machine(apt_get=APT, id="echo 0")
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in asked[:3]] == ["update", "chromium", "openjdk-17-jre-headless"]
    assert all("--no-install-recommends" in line for line in asked[1:3])
    assert both_made(asked)


def test_another_name_is_tried_and_others_than_root_ask_for_rights(machine):
    refusing = f'{APT}; [[ "$*" != *openjdk-17* ]]'
    done, asked = machine(apt_get=refusing, id="echo 1000", sudo=SUDO, chromium="")
    assert done.returncode == 0, done.stderr
    installs = [line.split()[-1] for line in asked if "install" in line]
    assert installs == ["openjdk-17-jre-headless", "default-jdk-headless"]
    assert asked.count("sudo") == 3


@pytest.mark.parametrize("user", ["0", "1000"])
def test_an_installation_that_fails_leaves_the_word_to_the_tests(machine, user):
    done, asked = machine(apt_get=f"{APT}; exit 100", id=f"echo {user}")
    assert done.returncode == 0
    assert "could not install any of: chromium chromium-browser" in done.stderr
    assert both_made(asked)


def test_without_a_package_manager_the_tests_are_still_run(machine):
    done, asked = machine()
    assert done.returncode == 0
    assert both_made(asked)


def test_a_failing_check_ends_it(machine):
    done, asked = machine(make=f"{MAKE}; exit 2", chromium="", java="")
    assert done.returncode != 0
    assert len(asked) == 1
