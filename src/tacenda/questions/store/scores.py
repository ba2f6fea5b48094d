"""Scores of records under models, and the losses and right answers that follow."""

from __future__ import annotations

import numpy as np

from tacenda._types import Array, Flags, Floats, Ints
from tacenda.errors import UnsupportedError
from tacenda.questions.store.table import Table
from tacenda.threads import in_parts


class Scores(Table):
    """Answers with scores, losses and counts of right answers."""

    def margins(self, nodes: Ints, w: Array) -> tuple[Array, Array, Ints]:
        """Scores (M, K) of all records of the nodes at their own rows of w, their labels (M,), and
        where each node starts.
        """
        nodes, w = self._checked(nodes, w)
        owner, first, last, start = self._tasks(nodes)
        place = np.cumsum(last - first) - (last - first)
        begin = place[start[:-1]]
        scores = np.empty((int(self.sizes[nodes].sum()), self.n_outputs))
        in_parts(
            self._kernels.margins,
            len(owner),
            self.elements(nodes),
            self.kernel_rows,
            owner,
            first,
            last,
            place,
            w,
            self.n_outputs,
            scores,
            sizes=last - first,
        )
        within = np.arange(len(scores)) - np.repeat(begin, self.sizes[nodes])
        return (
            scores,
            self.labels[within + np.repeat(self.offsets[nodes], self.sizes[nodes])],
            begin,
        )

    def scores(self, first: int, last: int, model: Array) -> Floats:
        """Scores (last - first, K) of the table's records first ..
        last - 1 under one model (d,), in float64."""
        out = np.empty((last - first, self.n_outputs))
        cuts = self._cuts(first, last)
        tasks = len(cuts) - 1
        in_parts(
            self._kernels.margins,
            tasks,
            len(out) * self.row_elements * self.n_outputs,
            self.kernel_rows,
            np.zeros(tasks, np.int64),
            cuts[:-1],
            cuts[1:],
            cuts[:-1] - first,
            np.ascontiguousarray(model, np.float64)[None],
            self.n_outputs,
            out,
        )
        return out

    def losses(self, nodes: Ints, w: Array) -> Floats:
        """Mean of each node's weighted losses at its own row of w, (b,);
        unscaled and without the regulariser."""
        scores, labels, begin = self.margins(nodes, w)
        values = self.loss.value(scores if self.n_outputs > 1 else scores[:, 0], labels)
        if self.weights is not None:
            spans = zip(self.offsets[nodes], self.offsets[nodes + 1], strict=True)
            values = values * np.concatenate([self.weights[a:b] for a, b in spans])
        return np.asarray(np.add.reduceat(values, begin) / self.sizes[nodes])

    def correct(self, nodes: Ints, w: Array) -> Ints:
        """How many of each node's records its own row of w classifies rightly, (b,)."""
        if self.loss.kind == "regression":
            raise UnsupportedError(
                f"correct counts class labels, and the loss {self.loss.name!r} has none; "
                "use losses."
            )
        scores, labels, begin = self.margins(nodes, w)
        return np.add.reduceat(self.right(scores, labels).astype(np.int64), begin)

    def right(self, scores: Array, labels: Array) -> Flags:
        """Whether scores (M, K), or (M,) for two classes, pick the label; a score of exactly 0
        counts as the positive class."""
        if self.n_outputs > 1:
            return np.asarray(scores.argmax(axis=1) == labels)
        return np.asarray((scores.reshape(-1) >= 0) == (labels > 0))
