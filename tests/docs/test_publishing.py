"""What a release needs: one version, a changelog that tools can read, and workflows that change only here."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

import aiolock

from .blocks import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SECTIONS = ["Breaking", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
TOP = {
    *("aiolock", "tests", "benchmarks", "docs", "pyproject.toml", "docker-compose.yml", "Makefile", "LICENSE"),
    *("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"),
}


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "aiolock/__init__.py"


def test_the_changelog_knows_the_version() -> None:
    """A release has its section, or the workflow would fail; between releases the version is that of the next."""
    titles = re.findall(r"^## \[(.+?)\]", CHANGELOG, re.M)
    assert titles[0] == "Unreleased"
    version = aiolock.__version__.removesuffix(".dev0")
    if version == aiolock.__version__:
        assert titles[1] == version
    else:
        assert tuple(map(int, version.split("."))) > tuple(map(int, titles[1].split(".")))
    assert re.findall(r"^\[(.+?)\]: https", CHANGELOG, re.M) == titles


def test_the_changelog_keeps_to_its_sections() -> None:
    """Keep a Changelog 1.1.0, and what breaks first: each section once per version, in order, and not too long."""
    for version in re.split(r"^## ", CHANGELOG, flags=re.M)[1:]:
        assert len(version.split()) <= 1200, version[:20]
        sections = re.findall(r"^### (.+)$", version, re.M)
        assert sections == [section for section in SECTIONS if section in sections], version[:20]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_hash(workflow) -> None:
    """The owner of a tag can move it; dependabot updates hashes, and the version in the comment."""
    used = re.findall(r"uses: *(.+)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [use for use in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_the_makefile_has(workflow) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z-]+)", workflow.read_text(encoding="utf-8")))
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.M))


def test_the_site_is_published_where_the_package_says() -> None:
    """One address, in pyproject.toml, the README and the extension that turns it into links between pages."""
    address = PROJECT["project"]["urls"]["Documentation"]
    owner, name = PROJECT["project"]["urls"]["Repository"].removeprefix("https://github.com/").split("/")
    assert address == f"https://{owner}.github.io/{name}/"
    assert f'SITE = "{address}"' in (ROOT / "docs/_ext/pages.py").read_text(encoding="utf-8")
    workflow = (ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8")
    assert "run: make docs" in workflow
    assert "path: build/docs" in workflow


@pytest.mark.parametrize("name", ["lint", "docs", "test"])
def test_every_environment_that_imports_the_package_has_its_extras(name) -> None:
    """Broken by an extra whose package only the tests install: `make check` fails where no test ran before it."""
    extras = {package(line) for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines}
    brought = {"opentelemetry-api": "opentelemetry-sdk", "starlette": "fastapi"}
    elsewhere = {"arq"}  # it wants an older redis-py; mypy ignores that, and Sphinx pretends
    assert {brought.get(extra, extra) for extra in extras - elsewhere} <= set(group(name))


def group(name: str) -> Iterator[str]:
    """The packages of a dependency group, and of those that it includes."""
    for line in PROJECT["dependency-groups"][name]:
        if isinstance(line, str):
            yield package(line)
        else:
            yield from group(line["include-group"])


def package(requirement: str) -> str:
    return re.split(r"[\[<>=;]", requirement, maxsplit=1)[0]


def test_nobody_is_sent_to_the_index_before_the_package_is_there() -> None:
    """The README says once how to install from the repository, and the release workflow refuses to publish that."""
    note = re.search(r"<!-- until published -->\n(.+)\n<!-- /until published -->", README)
    if note:
        assert f"`pip install git+{PROJECT['project']['urls']['Repository']}`" in note[1]
    assert README.count("git+") == README.count("/until published") == bool(note)
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert 'test -z "$(grep "until published" README.md)"' in release
    assert "until published" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## A release")[2]


def test_the_sdist_has_every_tracked_file() -> None:
    """Its own tests read the Makefile, the workflows and the pages: no list may leave anything out."""
    assert "sdist" not in PROJECT["tool"]["hatch"]["build"]["targets"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_top_of_the_repository_is_small() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name for name in (line.split("/")[0] for line in listed.splitlines()) if name[0] != "."} <= TOP
