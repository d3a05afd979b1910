"""docker-compose.yml, as far as that shows without Docker: its scripts run, with programs that note their words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from aiolock import LockManager

FILE = Path(__file__).parents[2] / "docker-compose.yml"
NOTE = '#!/bin/sh\necho "$(basename "$0") $*" >>"$NOTES"\n'


def service(name: str) -> str:
    """What the file says of it."""
    found = re.search(rf"^  {name}:\n(.*?)(?=^  \w|\Z)", FILE.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None
    return found[1]


def listed(name: str, key: str) -> list[str]:
    """The words of a list in one line."""
    found = re.search(rf"^ +{key}: \[(.*)\]$", service(name), re.M)
    assert found is not None
    return re.findall(r'"([^"]*)"', found[1])


def started(name: str, folder: Path) -> list[str]:
    """Run the service's script, and return the commands that it ran."""
    for program in ("redis-server", "redis-cli", "sleep"):
        (folder / program).write_text(NOTE)
        (folder / program).chmod(0o755)
    found = re.search(r"- sh\n +- -ec\n +- \|\n(.*?)\n(?=    \w)", service(name), re.S)
    assert found is not None
    script = found[1].replace("$$", "$").replace("/tmp/", f"{folder}/")
    environment = {"PATH": f"{folder}:/bin:/usr/bin", "NOTES": str(folder / "notes")}
    subprocess.run(["sh", "-ec", script], check=True, env=environment, cwd=folder)
    return (folder / "notes").read_text().splitlines()


def published(name: str) -> set[int]:
    """The ports that you reach on this machine, each under its own number and not from elsewhere."""
    ports: set[int] = set()
    for mapping in listed(name, "ports"):
        host, outside, inside = mapping.split(":")
        assert (host, outside) == ("127.0.0.1", inside)
        first, _, last = inside.partition("-")
        ports |= set(range(int(first), int(last or first) + 1))
    return ports


def port_of(command: str) -> int:
    found = re.search(r"--port (\d+)", command)
    assert found is not None, command
    return int(found[1])


def test_the_cluster(tmp_path: Path) -> None:
    commands = started("cluster", tmp_path)
    nodes = [command for command in commands if command.startswith("redis-server")]
    assert all("--cluster-enabled yes" in node and "--cluster-announce-ip 127.0.0.1" in node for node in nodes)
    assert {port_of(node) for node in nodes} == published("cluster")
    (create,) = (command for command in commands if "--cluster create" in command)
    assert {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", create)} == published("cluster")
    assert "--cluster-replicas 1" in create


def test_the_sentinels(tmp_path: Path) -> None:
    servers = [command for command in started("sentinel", tmp_path) if command.startswith("redis-server")]
    assert {port_of(server) for server in servers} == published("sentinel")
    master, replica, *sentinels = servers
    assert f"--replicaof 127.0.0.1 {port_of(master)}" in replica
    assert len(sentinels) == 3
    for sentinel in sentinels:
        assert sentinel.endswith("--sentinel")
        file = tmp_path / "sentinel" / sentinel.split()[1]
        assert f"sentinel monitor mymaster 127.0.0.1 {port_of(master)} 2" in file.read_text()


@pytest.mark.parametrize("profile", ["cluster", "sentinel"])
def test_profiles(profile: str) -> None:
    """They start only if you ask for them, and are asked for their health on a port that they have."""
    assert listed(profile, "profiles") == [profile]
    _, check = listed(profile, "test")
    assert {int(port) for port in re.findall(r"-p (\d+)", check)} <= published(profile)


def test_what_it_says_about_managers() -> None:
    """The managers in its comments suit its ports."""
    text = FILE.read_text(encoding="utf-8")
    made = [eval(code, {"LockManager": LockManager}) for code in re.findall(r"LockManager\.\w+\(.*\)", text)]
    assert len(made) == 2
    assert {int(port) for port in re.findall(r"LockManager.*?(\d{4,5})", text)} <= published("cluster") | published(
        "sentinel"
    )
