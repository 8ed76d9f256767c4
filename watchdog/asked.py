"""What a run was asked, as it is stored when the run begins: by that it is resumed and told."""

from __future__ import annotations

from typing import Any

from watchdog.config import Config
from watchdog.errors import UsageError
from watchdog.plan import Selection
from watchdog.store.values import Run


def document(config: Config, selection: Selection) -> dict[str, Any]:
    """Configuration and selection as JSON values."""
    return {"config": config.model_dump(mode="json"), "selection": selection.to_json()}


def configuration(run: Run) -> tuple[Config, Selection]:
    """What `document` wrote. Raises UsageError when a program unlike this one wrote it."""
    try:
        return Config.model_validate(run.config["config"]), Selection.from_json(run.config["selection"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # pydantic's errors are ValueErrors
        msg = (
            f"the configuration of run {run.id} was stored by kernel-watchdog {run.version} "
            "and means nothing to this version"
        )
        raise UsageError(msg) from error
