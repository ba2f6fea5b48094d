"""The losses' derivatives in NumPy, written apart from the compiled formulas: what those are
compared with."""

from __future__ import annotations

from typing import Any

import numpy as np


def derivative(loss: Any, scores: Any, labels: Any) -> np.ndarray:
    """d loss / d s; (..., K) for losses of several classes."""
    if loss.name == "multiclass-hinge":
        asked = 1.0 - np.eye(scores.shape[-1])[labels]  # a margin of 1 over every other class
        powers = np.exp(
            (scores + asked - (scores + asked).max(-1, keepdims=True)) / loss.temperature
        )
        return powers / powers.sum(-1, keepdims=True) - np.eye(scores.shape[-1])[labels]
    if loss.name == "multinomial":
        result = np.exp(scores - scores.max(axis=-1, keepdims=True))
        result /= result.sum(axis=-1, keepdims=True)
        return result - np.eye(result.shape[-1])[labels]
    z, u = labels * scores, scores - labels
    if loss.name == "logistic" or loss.stacked:
        small = np.exp(-np.abs(z))
        return -labels * np.where(z > 0, small, 1.0) / (1.0 + small)
    if loss.name == "hinge":
        return np.where(z < 1.0, -labels, 0.0)
    if loss.name == "smoothed-hinge":
        h = loss.width
        return -labels * np.clip((1.0 + h - z) / (2.0 * h), 0.0, 1.0)
    if loss.name == "huber":
        return np.clip(u, -loss.delta, loss.delta)
    if loss.name == "poisson":
        return (
            np.minimum(np.exp(scores), loss.label_bound) / loss.label_bound
            - counts(loss, labels) / loss.label_bound
        )
    if loss.name == "negative-binomial":
        y, m, a = counts(loss, labels), np.exp(scores), loss.dispersion
        return (m - y) / (1.0 + a * m) / max(loss.label_bound, 1.0 / a)
    if loss.name == "quantile":
        return np.where(u == 0.0, 0.0, (u > 0.0) - loss.level)
    if loss.name == "smoothed-quantile":
        return np.clip(0.5 + u / (2.0 * loss.width), 0.0, 1.0) - loss.level
    return {"squared": u, "absolute-deviation": np.sign(u)}[loss.name]


def counts(loss: Any, labels: Any) -> np.ndarray:
    """Labels of a loss of counts, within its bounds."""
    return np.clip(labels, 0.0, loss.label_bound)


def second(loss: Any, scores: Any, labels: Any) -> np.ndarray:
    """d^2 loss / d s^2; where the loss is only once differentiable, one element of it."""
    z, u = labels * scores, scores - labels
    if loss.name == "logistic" or loss.stacked:
        small = np.exp(-np.abs(z))
        return small / (1.0 + small) ** 2
    if loss.name == "smoothed-hinge":
        return np.where(np.abs(1.0 - z) < loss.width, loss.curvature, 0.0)
    if loss.name == "huber":
        return np.where(np.abs(u) < loss.delta, 1.0, 0.0)
    if loss.name == "poisson":
        m = np.exp(scores)
        return np.where(m < loss.label_bound, m / loss.label_bound, 0.0)
    if loss.name == "negative-binomial":
        y, m, a = counts(loss, labels), np.exp(scores), loss.dispersion
        return m * (1.0 + a * y) / (1.0 + a * m) ** 2 / max(loss.label_bound, 1.0 / a)
    if loss.name == "smoothed-quantile":
        return np.where(np.abs(u) < loss.width, loss.curvature, 0.0)
    return np.full(np.shape(u), {"squared": 1.0}.get(loss.name, 0.0))
