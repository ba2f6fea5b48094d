"""Private tables of who is in the data, each from one released vector of counts and sums.

describe       a table of counts, shares, means, deviations and quantiles, by group ("Table 1")
hazard_ratios  effects on survival, by Cox's model in groups
declared       what a table tells, as bounds, knots and stand-ins of a schema; `prevalences`
site_effects   one of them at each site alone, and what the sites say together (`pooled`)
survival       survival curves by group, their medians, means and the log-rank test
forecast       how readable each column will be, from public numbers, before anything is spent

Everything in a table follows from the released vector alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.tables.asked import Asked, AskedColumn
    from tacenda.tables.cells import TableCell, TableRow
    from tacenda.tables.declaring import declared, prevalences
    from tacenda.tables.describing import describe
    from tacenda.tables.description import Description
    from tacenda.tables.effects import Effect, HazardRatios
    from tacenda.tables.forecasting import Forecast, ForecastRow, NoisyTableWarning, forecast
    from tacenda.tables.hazards import hazard_ratios
    from tacenda.tables.life_table import LogRank
    from tacenda.tables.sites import Pooled, SiteEffects, pooled, site_effects
    from tacenda.tables.survival_curves import SurvivalCurves
    from tacenda.tables.surviving import survival

_HOMES = {
    "Asked": "asked",
    "AskedColumn": "asked",
    "Description": "description",
    "Effect": "effects",
    "Forecast": "forecasting",
    "ForecastRow": "forecasting",
    "HazardRatios": "effects",
    "LogRank": "life_table",
    "NoisyTableWarning": "forecasting",
    "Pooled": "sites",
    "SiteEffects": "sites",
    "SurvivalCurves": "survival_curves",
    "TableCell": "cells",
    "TableRow": "cells",
    "declared": "declaring",
    "describe": "describing",
    "forecast": "forecasting",
    "hazard_ratios": "hazards",
    "pooled": "sites",
    "prevalences": "declaring",
    "site_effects": "sites",
    "survival": "surviving",
}

__all__ = [
    "Asked",
    "AskedColumn",
    "Description",
    "Effect",
    "Forecast",
    "ForecastRow",
    "HazardRatios",
    "LogRank",
    "NoisyTableWarning",
    "Pooled",
    "SiteEffects",
    "SurvivalCurves",
    "TableCell",
    "TableRow",
    "declared",
    "describe",
    "forecast",
    "hazard_ratios",
    "pooled",
    "prevalences",
    "site_effects",
    "survival",
]

__getattr__ = lazily(__name__, _HOMES)
