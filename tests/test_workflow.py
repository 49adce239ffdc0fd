"""The public CI runs what is there: its commands, files and Pythons are those of the project."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
)
JOBS = WORKFLOW["jobs"]


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


@pytest.mark.parametrize("job", JOBS)
def test_every_make_target_exists(job):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands(job):
        for target in re.findall(r"\bmake ([^\s=]+)(?:\s|$)", command):
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def test_no_job_may_write_to_the_repository_or_run_for_hours():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 60 for job in JOBS.values())
    assert not any("permissions" in job for job in JOBS.values())


def test_the_tests_of_three_jobs_are_all_tests():
    plain, browser = commands("test")[-1], commands("browser")[-1]
    assert plain.endswith('-m "not browser and not sweep"')
    assert browser.endswith("-m browser")
    assert commands("sweep") == ["make sweep"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^sweep: .*\n\t.* pytest .* -m sweep$", makefile, re.MULTILINE)
