"""The five papers behind the algorithms,
by the keys under which code and documents speak of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """key: authors and year as in docs/papers.md, or "ours". short: the name of its page. title and
    authors as in the paper. about: what it does, for somebody who has not read it."""

    key: str
    short: str
    title: str
    authors: str = ""
    about: str = ""

    @property
    def heading(self) -> str:
        return f"{self.key}: {self.title}" if self.authors else self.title


OURS = "ours"
PAPERS = (
    Paper(
        "Huang and Gong (2020)",
        "IPADMM (Huang and Gong 2020)",
        "Differentially private ADMM for convex distributed learning: "
        "improved accuracy via multi-step approximation",
        "Zonghao Huang and Yanmin Gong",
        "Nodes learn one model by ADMM: each improves its own copy and pulls it towards its "
        "neighbours' copies. This paper replaces the exact local minimisation of a round by "
        "several gradient steps, with Gaussian noise after each, and sends their average "
        "(IPADMM). More steps a round should give a better model for the same privacy.",
    ),
    Paper(
        "Zhang et al. (2018)",
        "R-ADMM (Zhang et al. 2018)",
        "Recycled ADMM: improve privacy and accuracy with less computation in "
        "distributed algorithms",
        "Xueru Zhang, Mohammad Mahdi Khalili and Mingyan Liu",
        "Also ADMM, with noise inside the objective that each node minimises. In every "
        "second iteration this paper does not touch the records: it reuses what the "
        "iteration before has released (R-ADMM). Half of the iterations are then free in "
        "privacy and nearly free in computing, so the other half may have less noise.",
    ),
    Paper(
        "Liu et al. (2022)",
        "DP-DDA (Liu et al. 2022)",
        "Private stochastic dual averaging for decentralized empirical risk minimization",
        "Changxin Liu, Karl H. Johansson and Yang Shi",
        "Nodes average with their neighbours not models but sums of noisy gradients, each "
        "of a single record drawn at random (dual averaging, DP-DDA). Weights that grow "
        "with time should make it converge faster than plain dual averaging, and drawing "
        "one record at a time should need little noise.",
    ),
    Paper(
        "Zhang and Zhu (2016)",
        "DVP, PVP (Zhang and Zhu 2016)",
        "Dynamic privacy for distributed machine learning over network",
        "Tao Zhang and Quanyan Zhu",
        "The first private ADMM over a network. The noise is added to the dual variable "
        "before each local minimisation (DVP) or to the minimiser before it is sent (PVP). "
        "Privacy is stated for one iteration at a time, with a level that may change with "
        "the iteration.",
    ),
    Paper(
        "Gauthier et al. (2020)",
        "CDP-ADMM (Gauthier et al. 2020)",
        "Privacy-preserving distributed learning with nonsmooth objective functions",
        "François Gauthier, Cristiano Gratton, Naveen K. D. Venkategowda and Stefan Werner",
        "ADMM with one gradient step a round, for losses and regularisers without "
        "derivatives. The Gaussian noise shrinks from round to round by a constant factor "
        "(CDP-ADMM), and the loss of the whole run is accounted for as zero-concentrated "
        "differential privacy.",
    ),
    Paper(OURS, "Our own", "Our own experiments"),
)
