"""The five papers behind the algorithms, by the numbers under which code and documents speak of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """key: 000 .. 004, or "ours". short: the name of its page. title and authors as printed."""

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
        "000",
        "000 IPADMM",
        "Differentially private ADMM for convex distributed learning: improved accuracy via multi-step approximation",
        "Zonghao Huang and Yanmin Gong",
    ),
    Paper(
        "001",
        "001 R-ADMM",
        "Recycled ADMM: improve privacy and accuracy with less computation in distributed algorithms",
        "Xueru Zhang, Mohammad Mahdi Khalili and Mingyan Liu",
    ),
    Paper(
        "002",
        "002 DP-DDA",
        "Private stochastic dual averaging for decentralized empirical risk minimization",
        "Changxin Liu, Karl H. Johansson and Yang Shi",
    ),
    Paper("003", "003 DVP, PVP", "Dynamic privacy for distributed machine learning over network", "Tao Zhang and Quanyan Zhu"),
    Paper(
        "004",
        "004 CDP-ADMM",
        "Privacy-preserving distributed learning with nonsmooth objective functions",
        "François Gauthier, Cristiano Gratton, Naveen K. D. Venkategowda and Stefan Werner",
    ),
    Paper(OURS, "Our own", "Our own experiments"),
)
