"""How values become files, once for the whole program.

files    a file is replaced whole or not at all
text     JSON (for people, one object per line, canonical for hashes and signatures) and TOML

What a result, a checkpoint, a run folder or a contract holds is said where each is defined; here is
only how it is written.
"""
