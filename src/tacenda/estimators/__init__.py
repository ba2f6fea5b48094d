"""Private linear and additive models in the manner of scikit-learn.

model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 1), classes=(0, 1), n_nodes=20).fit(X, y)
model.coef_, model.privacy_, model.to_sklearn(), model.export("folder")
"""

from tacenda.estimators.additive_models import (
    PrivateAdditiveClassifier,
    PrivateAdditivePoissonRegressor,
    PrivateAdditiveRegressor,
)
from tacenda.estimators.base import PrivateLinearModel
from tacenda.estimators.by_forecast import PrivateClassifier, PrivateRegressor
from tacenda.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from tacenda.estimators.counts import PrivatePoissonRegressor
from tacenda.estimators.cox import PrivateCoxRegression
from tacenda.estimators.export import load_model
from tacenda.estimators.hazard import PrivateDiscreteHazard, person_periods
from tacenda.estimators.ordinal import PrivateOrdinalClassifier
from tacenda.estimators.regressors import (
    PrivateElasticNet,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from tacenda.estimators.search import PrivateSearchCV
from tacenda.estimators.warnings import BudgetWarning, DeclarationWarning, WeakPrivacyWarning

__all__ = [
    "BudgetWarning",
    "DeclarationWarning",
    "PrivateAdditiveClassifier",
    "PrivateAdditivePoissonRegressor",
    "PrivateAdditiveRegressor",
    "PrivateClassifier",
    "PrivateCoxRegression",
    "PrivateDiscreteHazard",
    "PrivateElasticNet",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearModel",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateOrdinalClassifier",
    "PrivatePoissonRegressor",
    "PrivateQuantileRegressor",
    "PrivateRegressor",
    "PrivateRidge",
    "PrivateSearchCV",
    "WeakPrivacyWarning",
    "load_model",
    "person_periods",
]
