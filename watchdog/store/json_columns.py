"""How JSON columns are written: strictly, so that every database and every tool can read them."""

from __future__ import annotations

import json
from typing import Any


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


JSON_OPTIONS: dict[str, Any] = {"json_serializer": _dump}  # for `create_engine`
