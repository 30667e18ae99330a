"""The available memory is the least of the system's, of every control group's and of the address space's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specdens._vectors import memory
from specdens._vectors.memory import available_bytes

GIB = 2**30


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """Return made-up mount points of a system with 100 GiB available and no limits."""
    monkeypatch.setattr(memory, "resource", None)
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    write(proc / "meminfo", f"MemTotal: 999999999 kB\nMemFree: 1 kB\nMemAvailable: {100 * 2**20} kB\n")
    write(proc / "self" / "cgroup", "")
    cgroup.mkdir()
    return {"proc": proc, "cgroup": cgroup}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(text))


def version_2(trees, path, limit, usage, cache=0):
    write(trees["cgroup"] / path / "memory.max", limit)
    write(trees["cgroup"] / path / "memory.current", usage)
    write(trees["cgroup"] / path / "memory.stat", f"anon 5\ninactive_file {cache}\nactive_file 7\n")


def version_1(trees, path, limit, usage, cache=0):
    folder = trees["cgroup"] / "memory" / path
    write(folder / "memory.limit_in_bytes", limit)
    write(folder / "memory.usage_in_bytes", usage)
    write(folder / "memory.stat", f"inactive_file 3\ntotal_inactive_file {cache}\n")


def test_without_limits_it_is_what_the_system_has_available(trees):
    assert available_bytes(**trees) == 100 * GIB


def test_a_container_of_version_2_has_its_limit_less_what_it_uses_but_for_caches(trees):
    write(trees["proc"] / "self" / "cgroup", "0::/\n")
    version_2(trees, ".", 8 * GIB, 3 * GIB, 2 * GIB)
    assert available_bytes(**trees) == 7 * GIB


def test_groups_within_groups_have_the_tightest_limit(trees):
    write(trees["proc"] / "self" / "cgroup", "0::/user.slice/job 7/step\n")
    version_2(trees, "user.slice", 20 * GIB, 19 * GIB)
    version_2(trees, "user.slice/job 7", 10 * GIB, 2 * GIB)
    version_2(trees, "user.slice/job 7/step", "max", 2 * GIB)
    assert available_bytes(**trees) == GIB
    version_2(trees, "user.slice", "max", 19 * GIB)
    assert available_bytes(**trees) == 8 * GIB


def test_a_container_of_version_1_has_the_limit_of_the_memory_controller(trees):
    write(trees["proc"] / "self" / "cgroup", "12:cpu,cpuacct:/a\n7:memory:/docker/abc\n1:name=systemd:/b\n0::/c\n")
    version_1(trees, ".", 2**63 - 4096, 50 * GIB)
    version_1(trees, "docker/abc", 4 * GIB, 3 * GIB, GIB)
    assert available_bytes(**trees) == 2 * GIB


def test_a_path_of_the_host_that_the_container_does_not_see_leads_to_the_limit_at_the_root(trees):
    write(trees["proc"] / "self" / "cgroup", "7:memory:/docker/not-mounted-here\n")
    version_1(trees, ".", 4 * GIB, GIB)
    assert available_bytes(**trees) == 3 * GIB
    write(trees["proc"] / "self" / "cgroup", "0::/../../outside\n")
    version_2(trees, ".", 2 * GIB, GIB)
    assert available_bytes(**trees) == GIB


def test_more_used_than_allowed_leaves_nothing(trees):
    write(trees["proc"] / "self" / "cgroup", "0::/\n")
    version_2(trees, ".", GIB, 2 * GIB)
    assert available_bytes(**trees) == 0


def test_a_system_that_tells_nothing_is_taken_to_have_4_gib(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory.os, "sysconf_names", {})
    assert available_bytes(proc=tmp_path / "none", cgroup=tmp_path / "none") == 4 * GIB


def test_without_procfs_it_is_the_physical_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory.os, "sysconf_names", {"SC_PAGE_SIZE": 0, "SC_PHYS_PAGES": 1})
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.get)
    assert available_bytes(proc=tmp_path / "none", cgroup=tmp_path / "none") == 4096 * 1000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is not held elsewhere")
def test_the_limit_of_the_address_space_counts_less_what_is_mapped():
    code = (
        "import resource; from specdens._vectors.memory import available_bytes as f; before = f()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, resource.RLIM_INFINITY)); after = f()\n"
        "print(0 < after < 2**33 and after <= before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "True"


def test_this_machine_has_some():
    assert 0 < available_bytes() < 2**60
