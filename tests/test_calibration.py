"""What calibration says of a rule: over made-up gates, and over the processes of a machine."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.calibration import campaign
from tests.calibration.__main__ import NAME, PAGE, written
from tests.calibration.campaign import OURS, SLOWDOWNS, Row
from tests.calibration.series import FAMILIES
from tests.written import markers
from watchdog.calibration import FEWEST, calibrated, decided, upper_limit
from watchdog.judges.experiment import Decision, Rule


@pytest.mark.parametrize("family", FAMILIES)
def test_a_short_campaign_keeps_what_the_page_promises(family: str) -> None:
    """A hundred gates of each kind: no alarm without a change (one may be chance), 5 % nearly always found."""
    quiet, slow = campaign.ours(family, 0.0, 100, 0), campaign.ours(family, 0.05, 100, 0)
    assert quiet.failed <= 1
    assert slow.failed >= 93
    assert quiet.processes is not None
    assert quiet.processes < 14  # it ends early where there is nothing to find


def test_parts_of_a_campaign_are_put_together() -> None:
    """Counts add up; the mean of processes is weighted by the gates."""
    parts = [Row(OURS, "Gaussian", 0.05, 100, 90, 4, 10.0), Row(OURS, "Gaussian", 0.05, 300, 290, 1, 14.0)]
    assert campaign.merged(parts) == Row(OURS, "Gaussian", 0.05, 400, 380, 5, 13.0)


def test_the_tables_hold_every_row() -> None:
    """All rules side by side, ours alone with its counts, and the limit on false alarms."""
    rows = [Row(OURS, family, slow, 1000, 1 if slow == 0 else 900, 3, 9.5) for family in FAMILIES for slow in SLOWDOWNS]
    text = written([*rows, *(replace(row, rule="other", processes=None) for row in rows)])
    assert "| other | spikes | 0.10 % |" in text
    assert "| Gaussian | none | 1,000 | 1 | 3 | 9.5 |" in text
    assert "4 of 4,000 gates, at most 0.229 %" in text


def test_the_page_shows_what_was_asked_of_the_rule() -> None:
    """At most one false alarm in a thousand; at 2 % noise 5 % found in 95 of 100 gates, and 3 % in 80."""
    begin, end = markers(NAME)
    table = PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    alarms, gates = re.findall(r"over all families: ([\d,]+) of ([\d,]+) gates", table)[0]
    assert int(alarms.replace(",", "")) <= int(gates.replace(",", "")) / 1000
    shares = {
        row[2]: [float(one.removesuffix(" %")) for one in row[3:8]]
        for row in (["", *(cell.strip() for cell in line.split("|")[1:-1])] for line in table.splitlines())
        if len(row) == 8 and row[1] == OURS
    }
    assert set(shares) == set(FAMILIES)
    assert all(none <= 0.1 for none, *_ in shares.values())
    assert shares["Gaussian"][2] >= 80
    assert all(found[3] >= 95 for found in shares.values())


def rounds(count: int, noise: float) -> list[list[float]]:
    random = np.random.default_rng(5)
    return [(level * np.exp(random.normal(0, 0.01, 8))).tolist() for level in np.exp(random.normal(0, noise, count))]


def test_a_machine_is_described() -> None:
    """Noise within and between is what was put in; few false alarms; larger slowdowns are found more often."""
    told = calibrated(rounds(60, 0.02), Rule(error_rate=0.05, processes=8))
    assert told.within == pytest.approx(0.01, rel=0.4)
    assert told.between == pytest.approx(0.02, rel=0.4)
    assert told.false_alarms <= 50
    power = [one.slower for one in told.power]
    assert power == sorted(power)
    assert power[-1] >= 0.95


def test_few_processes_tell_nothing() -> None:
    with pytest.raises(ValueError, match=f"{FEWEST} are the least"):
        calibrated(rounds(FEWEST - 1, 0.02), Rule())


def test_a_gate_takes_no_more_than_it_needs() -> None:
    """A clear slowdown is called at the first look, before all processes are used."""
    random = np.random.default_rng(1)
    base, head = np.exp(random.normal(0, 0.01, (2, 20)))
    reading = decided(base.tolist(), (head * 1.2).tolist(), Rule())
    assert reading.decision is Decision.SLOWER
    assert reading.processes < 20


@pytest.mark.parametrize(
    ("count", "trials", "limit"), [(0, 1000, 0.00299), (5, 100, 0.1023), (26, 40_000, 0.000903), (7, 7, 1.0)]
)
def test_the_limit_of_a_share(count: int, trials: int, limit: float) -> None:
    """Clopper and Pearson's at 95 %; of none it is 1 − 0.05 ** (1 / trials), of all of them 1."""
    assert upper_limit(count, trials) == pytest.approx(limit, rel=0.01)
