"""The five papers behind the algorithms,
by the keys under which code and documents speak of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """key: authors and year as in docs/papers.md, or "ours". short: the name of its page. title and
    authors as in the paper."""

    key: str
    short: str
    title: str
    authors: str = ""

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
    ),
    Paper(
        "Zhang et al. (2018)",
        "R-ADMM (Zhang et al. 2018)",
        "Recycled ADMM: improve privacy and accuracy with less computation in "
        "distributed algorithms",
        "Xueru Zhang, Mohammad Mahdi Khalili and Mingyan Liu",
    ),
    Paper(
        "Liu et al. (2022)",
        "DP-DDA (Liu et al. 2022)",
        "Private stochastic dual averaging for decentralized empirical risk minimization",
        "Changxin Liu, Karl H. Johansson and Yang Shi",
    ),
    Paper(
        "Zhang and Zhu (2016)",
        "DVP, PVP (Zhang and Zhu 2016)",
        "Dynamic privacy for distributed machine learning over network",
        "Tao Zhang and Quanyan Zhu",
    ),
    Paper(
        "Gauthier et al. (2020)",
        "CDP-ADMM (Gauthier et al. 2020)",
        "Privacy-preserving distributed learning with nonsmooth objective functions",
        "François Gauthier, Cristiano Gratton, Naveen K. D. Venkategowda and Stefan Werner",
    ),
    Paper(OURS, "Our own", "Our own experiments"),
)
