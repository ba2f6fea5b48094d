"""The algorithms of the five papers, one file per method or family."""

from tacenda.algorithms.admm import ADMM
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dpadmm import DPADMM
from tacenda.algorithms.dual_averaging import DDA, DPDDA
from tacenda.algorithms.gossip import GossipGD
from tacenda.algorithms.hyperparameters import check_hyperparameters
from tacenda.algorithms.linearised import CDPADMM, DDPADMM, IPADMM
from tacenda.algorithms.madmm import MADMM
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.needs import Needs
from tacenda.algorithms.node import Node
from tacenda.algorithms.optimum import Optimum
from tacenda.algorithms.perturbation import DVP, PVP
from tacenda.algorithms.recycled import RADMM
from tacenda.algorithms.recycled_condition import (
    least_recycle_proximal,
    recycled_condition_holds,
    recycled_constants,
)
from tacenda.algorithms.registry import (
    ALGORITHMS,
    all_algorithms,
    by_name,
    from_plain,
    prepared,
    private_names,
    register,
)
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.algorithms.tabled import Tabled
from tacenda.algorithms.traits import Traits
from tacenda.algorithms.treegd import TreeGD
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import Whitening

__all__ = [
    "ADMM",
    "ALGORITHMS",
    "CDPADMM",
    "DDA",
    "DDPADMM",
    "DPADMM",
    "DPDDA",
    "DVP",
    "IPADMM",
    "MADMM",
    "PVP",
    "RADMM",
    "Algorithm",
    "GossipGD",
    "MomentRegression",
    "Needs",
    "Node",
    "Optimum",
    "StatisticRelease",
    "Tabled",
    "Traits",
    "TreeGD",
    "Whitened",
    "Whitening",
    "all_algorithms",
    "by_name",
    "check_hyperparameters",
    "from_plain",
    "least_recycle_proximal",
    "prepared",
    "private_names",
    "recycled_condition_holds",
    "recycled_constants",
    "register",
]
