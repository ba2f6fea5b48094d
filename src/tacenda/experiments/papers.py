"""The five papers behind the algorithms,
by the keys under which code and documents speak of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """key: authors and year as in docs/papers.md, or "ours". short: the name of its page. title and
    authors as printed."""

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
        "HuangGong20",
        "IPADMM (HuangGong20)",
        "Differentially private ADMM for convex distributed learning: "
        "improved accuracy via multi-step approximation",
        "Zonghao Huang and Yanmin Gong",
    ),
    Paper(
        "ZhangEtAl18",
        "R-ADMM (ZhangEtAl18)",
        "Recycled ADMM: improve privacy and accuracy with less computation in "
        "distributed algorithms",
        "Xueru Zhang, Mohammad Mahdi Khalili and Mingyan Liu",
    ),
    Paper(
        "LiuEtAl22",
        "DP-DDA (LiuEtAl22)",
        "Private stochastic dual averaging for decentralized empirical risk minimization",
        "Changxin Liu, Karl H. Johansson and Yang Shi",
    ),
    Paper(
        "ZhangZhu16",
        "DVP, PVP (ZhangZhu16)",
        "Dynamic privacy for distributed machine learning over network",
        "Tao Zhang and Quanyan Zhu",
    ),
    Paper(
        "GauthierEtAl20",
        "CDP-ADMM (GauthierEtAl20)",
        "Privacy-preserving distributed learning with nonsmooth objective functions",
        "François Gauthier, Cristiano Gratton, Naveen K. D. Venkategowda and Stefan Werner",
    ),
    Paper(OURS, "Our own", "Our own experiments"),
)
