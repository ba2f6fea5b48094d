"""Released models as files that other programs predict with: ONNX, PMML, base R, JSON and
scikit-learn. An export is post-processing: it reads a released model and public facts only."""

from __future__ import annotations

from tacenda.exports.files import FORMATS, write
from tacenda.exports.portable import Portable, terms_of

__all__ = ["FORMATS", "Portable", "terms_of", "write"]
