"""What a leak costs: calls or hours to out-of-memory, restarts a week, and the overrun in per cent and money."""

from __future__ import annotations

import math
from dataclasses import dataclass

from watchdog.judges.wording import bytes_text, number_text
from watchdog.model import Service

HOURS_A_WEEK = 168
_LARGE = ((1e9, "billion"), (1e6, "million"))


@dataclass(frozen=True)
class Cost:
    """A service that leaks `rate` bytes per call into `room` bytes, and is restarted each time that they are full.

    The overrun is the share of machine time that the restarts take beside the time in service: so much more must be
    paid for the same work. Money is per week and machine.
    """

    calls: float
    room: float  # bytes
    hours: float | None = None
    restarts_a_week: float | None = None
    overrun: float | None = None  # 0.1 is 10 %
    money_a_week: float | None = None


def cost(rate: float, room: float, service: Service | None) -> Cost:
    """The cost of `rate` bytes per call (more than 0) with `room` bytes free."""
    calls = max(0.0, room) / rate
    if service is None:
        return Cost(calls, room)
    hours = calls / service.calls_per_second / 3600
    down = service.restart_minutes / 60
    overrun = down / hours if hours > 0 else math.inf
    money = None if service.price_per_hour is None else overrun * service.price_per_hour * HOURS_A_WEEK
    return Cost(calls, room, hours, HOURS_A_WEEK / (hours + down) if hours + down else math.inf, overrun, money)


def cost_text(found: Cost, service: Service | None) -> str:
    """As people say it."""
    text = f"{bytes_text(found.room)} are full after {_count(found.calls)} calls"
    if service is None or found.hours is None or found.restarts_a_week is None or found.overrun is None:
        return text
    money = "" if found.money_a_week is None else f", {_count(found.money_a_week)} {service.currency} a week"
    return (
        f"{text}, {_hours(found.hours)} at {_count(service.calls_per_second)} calls/s: "
        f"{_count(found.restarts_a_week)} restarts a week, an overrun of {found.overrun:.2%}{money}"
    )


def _hours(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:.3g} minutes"
    return f"{hours:.3g} hours" if hours < HOURS_A_WEEK else f"{_count(hours / 24)} days"


def _count(value: float) -> str:
    for size, name in _LARGE:
        if value >= size:
            return f"{value / size:.3g} {name}"
    return number_text(round(value)) if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
