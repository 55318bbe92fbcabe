"""Export of an experiment's decisions straight from its store, with or without a service that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from releaf.service.experiments.learner_factory import POLICIES, has_control, make_schema
from releaf.service.log.export_files import ExportTask, export_chunks
from releaf.service.messages import NewExperiment
from releaf.service.store.read_only import open_reader


async def export_from_store(address: str, name: str, file_format: str) -> AsyncIterator[bytes]:
    """Export all decisions of an experiment as a file, in chunks; a ``ValueError`` if there is no such experiment."""
    async with open_reader(address) as reader:
        rows = {row.name: row for row in await reader.experiments()}
        if name not in rows:
            raise ValueError(f"unknown experiment {name!r}: expected one of {', '.join(rows) or 'none'}")
        spec = msgspec.json.decode(rows[name].spec, type=NewExperiment)
        inputs = make_schema(spec).inputs
        task = ExportTask(
            store=address,
            experiment=rows[name].id,
            file_format=file_format,
            names=list(inputs),
            kinds=[feature.kind for feature in inputs.values()],
            wants_all=spec.policy.parameters.get("observe") in ("all-actions", "labels"),
            has_slates=spec.policy.name in POLICIES and POLICIES[spec.policy.name].traits.takes_action_features,
            has_costs=any(spec.policy.parameters.get(name) is not None for name in ("cost_weight", "spend_budget")),
            has_groups=has_control(spec),
            has_label_costs=spec.policy.name == "AdaptiveReleaf"
            and any(spec.policy.parameters.get(name) is not None for name in ("label_budget", "observation_cost")),
        )
        async for chunk in export_chunks(reader, task):
            yield chunk
