"""What a run is, said once. A term is a frozen class whose fields are settings; files, flags,
contracts, tables and reports are made from them."""
