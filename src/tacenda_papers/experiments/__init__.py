"""The five papers' experiments and three of our own, each as published and at equal epsilon.

    tacenda experiment list | run NAME [--full] | report | headline

An experiment (`spec.Experiment`) is a list of cells (single runs, plain values), charts and
findings over their tidy rows.
`registry.EXPERIMENTS` holds them all; `player.play` runs the cells that are not stored yet;
`page.build` draws one self-contained HTML page.
"""
