"""The words that the estimators' docstrings share: each parameter, attribute and condition once.

`documented` puts them into the docstring of a class, so that `help` and the reference show them all
with every class, and takes care that nothing is left out: a parameter without a text is an error at
import.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import TypeVar

Class = TypeVar("Class", bound=type)

PARAMETERS = {
    "epsilon": """float, Privacy or None, default=1.0
        Privacy of the whole fit, for one record, against an adversary who sees every message; or a
        `tacenda.Privacy` with all its settings. None fits without privacy: the optimum, and no
        noise.""",
    "delta": """float, default=1e-5
        The probability that the bound epsilon fails; keep it below one over the number of records.
        """,
    "l1_ratio": """float, default=0.5
        Share of the l1 part of the penalty: 1 is the lasso, 0 is ridge.""",
    "threshold": """float, default=0.5
        The residual, in units of half the target range, beyond which the loss is linear.""",
    "periods": """sequence of float, default=(1,2,3,4,5)
        The end of each period, rising and above 0, declared from public knowledge in the unit of
        the times. The first begins at 0; what happens after the last is not looked at.""",
    "quantile": """float, default=0.5
        The share of targets that lie below the prediction, between 0 and 1; 0.5 is the median.""",
    "width": """float, default=0.05
        Half the width over which the kink of the loss is smoothed, in units of half the target
        range. The quantile found is that of targets blurred by so much.""",
    "count_bound": """float or None, default=None
        The largest count, declared from public knowledge: larger ones are cut to it, which pulls
        rates down, and noise grows with it. None cuts at 10, with a warning.""",
    "typical_count": """float or None, default=None
        A typical count, from public knowledge: the fit starts from a model that says this rate for
        every record, and its steps are planned for means of up to eight times it. None: an eighth
        of the largest count.""",
    "dispersion": """float, default=0.0
        How much more than a Poisson count varies: at a rate m the variance is m + dispersion m^2.
        0 is Poisson regression; above 0 it is negative binomial with this declared dispersion.""",
    "adjacency": """{"replace-one", "add-remove"}, default="replace-one"
        What differs between two neighbouring data sets: the contents of one record, so that record
        counts are public; or its presence, and then `public_sizes` must be declared.""",
    "coalition": """int or None, default=1
        How many curious data holders may combine what they know. None: all others may; noise then
        needs no trust, and is larger.""",
    "data_norm": """float or None, default=None
        Longer rows of scaled features are shortened to this norm, in training and in prediction.
        None: no row is shortened with `bounds`, and without them the norm is 1. Where rows may be
        shortened, coefficients have no original units and no intervals.""",
    "clip_norm": """float or None, default=None
        Bound on the gradient of one record, in scaled features. By default that of the loss; for
        squared losses, in units of half the target range, 0.5, or 0.3 with the algorithms "auto"
        and "moments", which clip less where the noise is low; for counts, in units of the largest
        count, 0.3: counts with a long tail need more, or their mean comes out too low.""",
    "bounds": """(low, high), list of pairs, dict, "norm" or None, default=None
        Declared bounds of the features from public knowledge: (low, high) with a number or one per
        feature, one pair per feature, or {column: (low, high)}. Features are clipped to them
        in training and in prediction, scaled to [-1, 1], and all rows divided by one number, the
        largest norm that they can have.
        "norm": rows are used as they are, and shortened to
        `data_norm`. None does the same with a warning.""",
    "levels": """dict or None, default=None
        The declared levels of each category, {column: [level, ...]}; all other columns are numbers.
        """,
    "breaks": """dict or None, default=None
        Inner knots of a curve, {column: [number, ...]}, in the column's own unit; elsewhere knots
        are spread evenly over the bounds.""",
    "atoms": """dict or None, default=None
        Values with a step of their own, {column: [number, ...]}, such as 0 of an amount that most
        do not have.""",
    "log": """sequence of str or None, default=None
        Columns of amounts, whose knots are spread evenly in log(1 + x).""",
    "cyclic": """dict or None, default=None
        Columns that start again, {column: period}, such as {"hour": 24}: the curve ends where it
        began.""",
    "pairs": """sequence of (str, str) or None, default=None
        Pairs of columns that are learnt together: a surface beside the two curves.""",
    "monotone": """dict or None, default=None
        Curves that must rise or fall, {column: "increasing" or "decreasing"}; the fitted curve is
        replaced by the nearest such one, which costs no privacy.""",
    "linear": """sequence of str or None, default=None
        Columns of numbers that stay straight lines.""",
    "functions": """int or None, default=None
        Hat functions of a curve. None: 32 for classes and 24 for numbers and counts, or as many as
        keep all features within 1000.""",
    "target_bounds": """(float, float), default=None
        Declared bounds of the target from public knowledge; targets and predictions are clipped to
        them. A fit without it is refused.""",
    "strength": """float or "auto", default="auto"
        Strength of the penalty, on the weights of features scaled to [-1, 1] (of the features
        themselves without `bounds`) and a constant. Where the records are whitened, "auto"
        chooses it after their second moment is released, by the forecast error of noise and of too
        few records, which costs no privacy; else, and without privacy, it is 1e-5.""",
    "fit_intercept": """bool, default=True
        Whether to add a constant feature, penalised like the others.""",
    "classes": """sequence or None, default=None
        The declared label set. None takes the labels found in y as public, which they are not
        always.""",
    "class_weight": """dict or None, default=None
        Public weight of each class, {label: weight}, 1 for classes left out. "balanced" is refused:
        it would read the label counts of private records.""",
    "weight_bound": """float, default=1.0
        Declared bound on `sample_weight`: weights lie from 0 to it, and the noise is made for
        records of this weight.""",
    "n_nodes": """int or None, default=None
        How many data holders share the records evenly. None: up to 10, of at least 50 records
        each. `fit(nodes=...)` names each record's holder instead.""",
    "graph": """str, networkx.Graph, Topology or None, default=None
        The network of the data holders, such as "ring:20". None: complete up to 7 of them, else
        random with 6 neighbours each.""",
    "algorithm": """str, Algorithm or Method, default="auto"
        "auto" plans the algorithm and its settings from public quantities; or a name, an object of
        `tacenda.algorithms`, or a `tacenda.Method` with all settings of the run.""",
    "rounds": """int or None, default=None
        Number of rounds. None leaves it to the plan, or to the algorithm's own default.""",
    "prepare": """None, "whitening" or Whitening, default=None
        What happens to the records first, under the same budget; "auto" decides it by itself.""",
    "random_state": """int, RandomState or None, default=None
        None draws fresh noise. An int makes it reproducible: for simulation only, since anybody who
        knows it can subtract the noise.""",
    "verbose": """bool, default=False
        Whether to print the plan and show progress.""",
    "public_sizes": """float, sequence or None, default=None
        Declared public number of records of each data holder, for "add-remove".""",
    "ledger": """path or None, default=None
        A lasting ledger's file, to which the fit is charged before its noise is drawn.""",
    "dataset": """str or None, default=None
        Name of the ledger's account; past its budget, fits are refused.""",
    "problem": """dict or None, default=None
        What else is declared of the problem, as `tacenda.Problem` takes it, for scaled features and
        targets: {"radius": 100.0}; or another loss that predicts the same, {"loss": "hinge"}.""",
}

ATTRIBUTES = {
    "coef_": """ndarray of shape {coef}
        Weights of the features in their own units: the average of the nodes' models.""",
    "intercept_": """{intercept}
        Constant of the model.""",
    "schema_": """Schema
        What was declared, as a schema: how cells become features.""",
    "shapes_": """list of Shape
        What each column adds to the score, those that matter most first, with bands of noise.""",
    "form_": """str
        "additive" or "linear": what was decided by the forecast.""",
    "coef_table_": """CoefficientTable
        Coefficients by feature name, largest effects first, with the standard error that the
        privacy noise adds, where it is known.""",
    "feature_map_": """Shortening
        What rows pass before they meet the weights, in training and in prediction: cells are
        clipped to `bounds`, and rows shortened where `feature_map_.shortens`.""",
    "classes_": """ndarray of shape (n_classes,)
        The sorted labels.""",
    "strength_": """float
        The strength that was used: `strength`, or the one that "auto" chose.""",
    "selection_strength_": """float
        The strength at which weights are set to 0: `strength_`, or the larger one that the noise
        asks for (see Notes).""",
    "path_": """RegressionPath or None
        Models of many strengths from this one fit, at no further cost of privacy; None where the
        algorithm was another than "moments".""",
    "node_coef_": """ndarray of shape (n_nodes, {node})
        Weights of each node's own model.""",
    "node_intercept_": """ndarray of shape (n_nodes{rest})
        Constant of each node's own model.""",
    "node_labels_": """tuple
        Names of the data holders, in the order of `node_coef_`.""",
    "n_features_in_": """int
        Number of features seen in `fit`.""",
    "feature_names_in_": """ndarray of shape (n_features_in_,)
        Names of the features; only where X was a frame whose column names are all strings.""",
    "n_iter_": """int
        Number of rounds.""",
    "privacy_": """Statement or None
        What was really spent, from the ledger of the run: `privacy_.epsilon`, `privacy_.delta`.
        None without privacy.""",
    "conditions_": """list of str
        What the guarantee rests on, in sentences.""",
    "plan_": """Plan or None
        The plan of `algorithm="auto"`; `print(plan_.explain())` gives the reasons.""",
    "history_": """History
        The course of the run. Computed from the records without noise: not covered by the
        guarantee, for simulation only.""",
    "result_": """RunResult
        The whole run.""",
    "result_settings_": """dict
        Its settings as plain values.""",
}

GUARANTEE = """The fit is (epsilon, delta)-differentially private for one record of one data
holder, against an adversary who sees every message of every round and knows all other records and
all settings. The model in `coef_` and every post-processing of it (predictions on other data,
`to_sklearn`, `export`) is covered. Conditions: bounds, classes, class weights, record counts (under
"replace-one"), the network and all settings are public and were not chosen by looking at the
records; at most `coalition` data holders combine what they know, where noise is shared; a
`random_state` is for simulation only. `score` on training data and `history_` are not covered.
`conditions_` states what holds for the fit at hand."""

WEIGHTS = """A record of weight v adds v times its loss, and the divisor stays the public number of
records. A weight belongs to its record and is as private; all noise is made for records of weight
`weight_bound`{times}, so a bound that few records come near costs accuracy."""

_OF_CLASSES = {
    "coef": "(1, n_features) or (n_classes, n_features)",
    "intercept": "ndarray of shape (1,) or (n_classes,)",
    "node": "n_outputs, n_features",
    "rest": ", n_outputs",
}
_OF_ROWS = {
    "coef": "(n_features,)",
    "intercept": "ndarray of shape (n_rows,)",
    "node": "n_features",
    "rest": ", n_rows",
}
_OF_TARGETS = {"coef": "(n_features,)", "intercept": "float", "node": "n_features", "rest": ","}


def documented(kind: Class) -> Class:
    """Fill `{parameters}`, `{attributes}` and `{guarantee}` in the docstring of an estimator."""
    given = inspect.signature(kind).parameters
    classifier = "classes" in given
    stacked = getattr(kind, "_stacked", False)  # several rows of each record, a constant each
    shapes = _OF_ROWS if stacked else (_OF_CLASSES if classifier else _OF_TARGETS)
    left_out = {"path_"} if classifier or stacked else set()
    left_out |= set() if classifier else {"classes_"}
    left_out |= {"coef_table_"} if "functions" in given else {"schema_", "shapes_"}
    if not hasattr(kind, "form_"):
        left_out.add("form_")
    if not getattr(kind, "_leaves_zeros", False):
        left_out.add("selection_strength_")
    times = " times the largest class weight" if classifier else ""
    parts = {
        "parameters": _section("Parameters", {name: PARAMETERS[name] for name in given}),
        "attributes": _section(
            "Attributes",
            {
                name: text.format(**shapes)
                for name, text in ATTRIBUTES.items()
                if name not in left_out
            },
        ),
        "guarantee": f"{_wrapped(GUARANTEE)}\n\n{_wrapped(WEIGHTS.format(times=times))}",
    }
    text = inspect.cleandoc(kind.__doc__ or "")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    kind.__doc__ = text
    return kind


def _section(title: str, entries: dict[str, str]) -> str:
    lines = [title, "-" * len(title)]
    for name, text in entries.items():
        kind, rest = text.split("\n", 1)
        lines += [f"{name} : {kind}", textwrap.indent(_wrapped(rest, 88), "    ")]
    return "\n".join(lines)


def _wrapped(text: str, width: int = 92) -> str:
    return textwrap.fill(" ".join(text.split()), width)
