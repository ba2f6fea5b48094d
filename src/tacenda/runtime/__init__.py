"""Running algorithms: blocks of nodes, networks, noise planning, simulation."""
