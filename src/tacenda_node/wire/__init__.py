"""How it is carried: the endpoint, links, the mailbox, and the exchange of a round."""
