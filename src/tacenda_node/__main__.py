"""`python -m tacenda_node`: the node's commands by themselves, for service files and rehearsals."""

from tacenda_node.commands import main

main()
