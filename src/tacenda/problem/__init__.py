"""Problems: losses, regularisers, private records and the questions that may be asked of them."""
