"""`problem.model = "auto"`: curves or straight lines, by public facts, before a record is read."""

from __future__ import annotations

from tacenda.runs.objects import facts_of, privacy_of, topology_of
from tacenda.runs.sections import RunConfig
from tacenda.runs.shape import public_shape, schema_of_file


def with_form(config: RunConfig) -> tuple[RunConfig, tuple[str, ...]]:
    """The configuration with "linear" or "additive" in the place of "auto", and what was taken and
    why, in a sentence; of any other model as it is."""
    if config.problem.model != "auto":
        return config, ()
    form, why = _form(config)
    return _as(config, form), (f"problem.model 'auto' took {why}",)


def _as(config: RunConfig, form: str) -> RunConfig:
    return config.model_copy(update={"problem": config.problem.model_copy(update={"model": form})})


def _form(config: RunConfig) -> tuple[str, str]:
    from tacenda.planning import plan_facts
    from tacenda.planning.form import carries_curves

    if config.data.file is None or config.data.table_schema is None:
        return "linear", "straight lines: no schema declares columns that could bend"
    if not schema_of_file(config.data, "additive").additive:
        return "linear", "straight lines: the schema declares no number that could bend"
    if not config.privacy.private:
        return "additive", "curves: there is no noise"
    privacy = privacy_of(config.privacy)
    assert privacy is not None
    if privacy.noise or privacy.mode != "sound" or privacy.delta == 0:
        return "linear", "straight lines: what noise costs is forecast for sound Gaussian noise"
    curved = _as(config, "additive")
    shape = public_shape(curved)
    topology = topology_of(curved.network, shape)
    facts = facts_of(curved.problem, shape, curved.privacy, curved.run.solver_tolerance)
    rounds = curved.run.fixed_settings().get("rounds")
    carried, why = carries_curves(plan_facts(facts, topology, privacy, rounds=rounds))
    return "additive" if carried else "linear", why
