"""Problems: a loss, a regulariser and the private records of every node."""
