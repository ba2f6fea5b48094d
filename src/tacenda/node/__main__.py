"""`python -m tacenda.node`: the node's commands by themselves, for service files and rehearsals."""

from tacenda.node.commands import main

main()
