"""The charts of a run folder: learning, agreement, privacy, spending, utility."""

from __future__ import annotations

import numpy as np

from tacenda.evaluation import measures
from tacenda.report import numbers
from tacenda.report.charts import Chart, Series, over_seeds
from tacenda.report.reading import Folder, Group
from tacenda.terms.closing import closes

# metric: (title, axis, what a reader wants of it, logarithmic)
METRICS: dict[str, tuple[str, str, str, bool]] = {
    "objective": ("Objective of the average model", "objective", "lower is better", False),
    "suboptimality": (
        "Objective above the noise-free optimum",
        "suboptimality",
        "lower is better",
        True,
    ),
    "node_objective": (
        "Objective of the nodes' own models, mean",
        "objective",
        "lower is better",
        False,
    ),
    "worst_objective": (
        "Objective of the worst node's model",
        "objective",
        "lower is better",
        False,
    ),
    "local_objective": (
        "Objective of each node on its own data, mean",
        "objective",
        "lower is better",
        False,
    ),
    "loss": ("Loss of the average model", "loss", "lower is better", False),
    "accuracy": ("Accuracy of the average model", "accuracy", "higher is better", False),
    "misclassification": (
        "Share of records classified wrongly",
        "misclassified",
        "lower is better",
        False,
    ),
    "node_accuracy": (
        "Accuracy of the nodes' own models, mean",
        "accuracy",
        "higher is better",
        False,
    ),
    "worst_accuracy": ("Accuracy of the worst node's model", "accuracy", "higher is better", False),
    "node_loss": ("Loss of the nodes' own models, mean", "loss", "lower is better", False),
    "node_misclassification": (
        "Share of all records that the nodes' own models classify wrongly, mean",
        "misclassified",
        "lower is better",
        False,
    ),
    "own_loss": (
        "Loss of each node's model on its own records, mean",
        "loss",
        "lower is better",
        False,
    ),
    "own_misclassification": (
        "Share of its own records that each node's model classifies wrongly, mean",
        "misclassified",
        "lower is better",
        False,
    ),
    "test_loss": ("Loss on test data", "loss", "lower is better", False),
    "test_accuracy": ("Accuracy on test data", "accuracy", "higher is better", False),
    "consensus": (
        "Distance of the nodes' models from their average",
        "root mean square distance",
        "lower is better",
        True,
    ),
    "distance": (
        "Distance of the nodes' models from the optimum",
        "normalised squared distance",
        "lower is better",
        True,
    ),
    "zeros": ("Coefficients that are exactly 0", "share", "higher is sparser", False),
    "infeasibility": ("Disagreement along the edges", "sum of distances", "lower is better", True),
    "data_passes": ("Passes over the records", "passes", "lower is better", False),
}
AGREEMENT = ("consensus", "infeasibility")
UTILITY = (
    "test_accuracy",
    "accuracy",
    "test_r2",
    "r2",
    "objective",
    "test_loss",
    "loss",
    "suboptimality",
)


def is_share(metric: str) -> bool:
    """Whether a metric is a share, shown in per cent."""
    return metric == "misclassification" or metric.endswith("accuracy")


def about(metric: str) -> tuple[str, str, str, bool]:
    """Words for a metric; an unknown one is called by its own name."""
    known = measures.MEASURES.get(metric.removeprefix("test_"))
    if metric not in METRICS and known is not None:
        title = measures.title(metric)
        wish = "higher is better" if known.more_is_better else "lower is better"
        return title[0].upper() + title[1:], known.title, wish, False
    return METRICS.get(
        metric, (metric.replace("_", " ").capitalize(), metric.replace("_", " "), "", False)
    )


def learning(folder: Folder) -> list[Chart]:
    """One chart per metric: mean over the seeds and their range, for every label."""
    metrics = [m for m in folder.metrics if m not in AGREEMENT]
    return [chart for chart in (_course(folder, metric) for metric in metrics) if chart is not None]


def agreement(folder: Folder) -> list[Chart]:
    """How far the nodes' models are apart."""
    charts = [_course(folder, metric) for metric in AGREEMENT if metric in folder.metrics]
    return [chart for chart in charts if chart is not None]


def _course(folder: Folder, metric: str) -> Chart | None:
    title, axis, wish, logarithmic = about(metric)
    series = []
    for k, group in enumerate(folder.groups):
        found = over_seeds([run.result.history.rows for run in group.runs], metric)
        if found is not None:
            rounds, mean, low, high = found
            several = len(group.runs) > 1
            series.append(
                Series(
                    group.label,
                    rounds,
                    mean,
                    k,
                    low if several else None,
                    high if several else None,
                )
            )
    if not series:
        return None
    show = numbers.percent if is_share(metric) else numbers.short
    ends = "; ".join(f"{s.name} ends at {show(s.y[-1])}" for s in series)
    series += _reference_lines(folder, metric, series)
    y_log = logarithmic and all(np.all(s.y >= 0) and np.any(s.y > 0) for s in series)
    return Chart(
        f"course-{metric}",
        title,
        "round",
        axis,
        series,
        f"Line chart of {title.lower()} against the round: {ends}.",
        _course_note(folder, wish),
        y_log=y_log,
        percent=is_share(metric),
        tab=axis if metric == axis else title,
    )


def _reference_lines(folder: Folder, metric: str, series: list[Series]) -> list[Series]:
    """The noise-free ceiling and the floor as level lines, where the manifest has them."""
    ends = np.array([min(s.x[0] for s in series), max(s.x[-1] for s in series)], float)
    known = [(name, values[metric]) for name, values in folder.references if metric in values]
    return [
        Series(name, ends, np.full(2, value), k, style="level")
        for k, (name, value) in enumerate(known)
    ]


def _course_note(folder: Folder, wish: str) -> str:
    parts = [wish.capitalize() + "."] if wish else []
    if any(len(group.runs) > 1 for group in folder.groups):
        parts.append("Line: mean over the seeds; band: least to largest.")
    if any(closes(group.settings) for group in folder.groups):
        parts.append(
            "The last point comes after the closing rounds, "
            "which only mix or average what was already sent and cost no privacy."
        )
    return " ".join(parts)


def privacy_curve(folder: Folder) -> Chart | None:
    """epsilon against delta of each label's worst node, with the point that the run states."""
    series = []
    for k, group in enumerate(folder.groups):
        if group.account is None:
            continue
        deltas, epsilons = group.account.profile()
        if len(deltas):
            series.append(Series(group.label, deltas, epsilons, k))
        if np.isfinite(group.account.epsilon) and group.account.delta > 0:
            point = np.array([group.account.delta]), np.array([group.account.epsilon])
            series.append(Series(f"{group.label}, stated", *point, k, style="mark", legend=False))
    if not series:
        return None
    said = "; ".join(
        f"{g.label} has epsilon {numbers.epsilon(g.account.epsilon)} at delta "
        f"{numbers.short(g.account.delta)}"
        for g in folder.private
        if g.account is not None
    )
    return Chart(
        "privacy-curve",
        "Privacy curve of the worst node",
        "δ, probability that the bound fails",
        "ε, privacy loss",
        series,
        f"Line chart of epsilon against delta: {said}.",
        "All points of a curve hold together; the open mark is the one that the run states. "
        "Lower is more private.",
        x_log=True,
    )


def spending(folder: Folder) -> list[Chart]:
    """How the budget was used up over the rounds, and what each release cost by itself."""
    groups = [(k, group) for k, group in enumerate(folder.groups) if group.account is not None]
    running, single = [], []
    for k, group in groups:
        assert group.account is not None
        rounds = int(group.settings["rounds"])
        x, y = group.account.spending(rounds)
        if np.all(np.isfinite(y)):
            running.append(Series(group.label, x, y, k))
        x, y = group.account.single_releases(rounds)
        if len(x) and np.all(np.isfinite(y)):
            single.append(Series(group.label, x, y, k))
    return [chart for chart in (_spent(running), _each(single)) if chart is not None]


def _spent(series: list[Series]) -> Chart | None:
    if not series:
        return None
    ends = "; ".join(f"{s.name} reaches {numbers.short(s.y[-1])}" for s in series)
    return Chart(
        "spent",
        "Privacy spent so far",
        "round",
        "ε spent up to the round",
        series,
        f"Line chart of the epsilon spent up to each round at the run's delta: {ends}.",
        "Composed as for the whole run, for its worst node. It is not a sum: "
        "many small releases cost less together.",
        tab="spent so far",
    )


def _each(series: list[Series]) -> Chart | None:
    if not series:
        return None
    ends = "; ".join(
        f"{s.name} from {numbers.short(s.y[0])} to {numbers.short(s.y[-1])}" for s in series
    )
    return Chart(
        "each-release",
        "Privacy cost of each release by itself",
        "round",
        "ε of one release",
        series,
        f"Line chart of the epsilon of each single release, at the run's delta: {ends}.",
        "What one message alone tells about a record, given all that was sent before.",
        tab="each release",
    )


def utility(folder: Folder) -> list[Chart]:
    """Final quality against the run's epsilon, where the folder holds several epsilons."""
    accounts = [
        g.account
        for g in folder.private
        if g.account is not None and np.isfinite(g.account.epsilon)
    ]
    if len({f"{a.epsilon:.3g}" for a in accounts}) < 2:
        return []
    charts = [_utility(folder, metric) for metric in UTILITY if metric in folder.measures]
    return [chart for chart in charts if chart is not None][:3]


def _utility(folder: Folder, metric: str) -> Chart | None:
    title, axis, wish, _ = about(metric)
    algorithms = list(dict.fromkeys(group.algorithm for group in folder.private))
    series = [
        _against_epsilon([g for g in folder.private if g.algorithm == name], name, k, metric)
        for k, name in enumerate(algorithms)
    ]
    shown = [s for s in series if len(s.x)]
    if not shown:
        return None
    show = numbers.percent if is_share(metric) else numbers.short
    said = "; ".join(
        f"{s.name} {show(s.y[0])} at {numbers.short(s.x[0])} and {show(s.y[-1])} at "
        f"{numbers.short(s.x[-1])}"
        for s in shown
    )
    return Chart(
        f"utility-{metric}",
        f"{title} against ε",
        "ε, true for the whole run",
        axis,
        shown,
        f"Chart of {title.lower()} against epsilon: {said}.",
        f"{wish.capitalize()}. Marks: mean over the seeds; bars: least to largest." if wish else "",
        x_log=True,
        percent=is_share(metric),
        tab=axis,
        x_ticks=tuple(sorted({float(x) for s in shown for x in s.x})),
    )


def _against_epsilon(groups: list[Group], name: str, colour: int, metric: str) -> Series:
    points = []
    for group in groups:
        assert group.account is not None
        final = group.final(metric)
        if len(final) and np.isfinite(group.account.epsilon):
            points.append((group.account.epsilon, final.mean(), final.min(), final.max()))
    table = np.array(sorted(points)).reshape(-1, 4)
    return Series(name, table[:, 0], table[:, 1], colour, table[:, 2], table[:, 3], style="points")
