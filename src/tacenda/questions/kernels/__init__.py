"""Compiled kernels: access to records, gradients, Hessians, and the steps of the local solver."""
