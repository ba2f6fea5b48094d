"""Whether this process is one of several that an MPI starter has started; nothing is loaded for
it."""

from __future__ import annotations

import os

# Set by the starters of Open MPI, of MPICH, Intel MPI and Slurm's PMI-2, and of Slurm with PMIx
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def launched() -> int:
    """How many processes an MPI starter has started for this run.

    It asks the environment of mpiexec, mpirun or srun, and does not load MPI.
    """
    found = next((os.environ[name] for name in _SIZES if name in os.environ), "1")
    return int(found) if found.isdigit() else 1
