"""A model as a script for base R: source it, or run `Rscript model.R new.csv > predictions.csv`."""

from __future__ import annotations

import json
import math
from typing import Any

from tacenda.exports.portable import Portable

_CODE = r"""
tacenda_terms <- function(data, model) {
  total <- matrix(model$constant, nrow(data), length(model$constant), byrow = TRUE)
  for (term in model$terms) {
    if (!(term$column %in% names(data)))
      stop("the data lack the column '", term$column, "'")
    cell <- data[[term$column]]
    text <- as.character(cell)
    gone <- is.na(cell) | text %in% model$missing_values
    for (k in seq_along(model$constant)) {
      add <- switch(term$term,
        levels = tacenda_level(text, gone, term, k),
        tacenda_number(cell, text, gone, term, k))
      if (any(gone)) {
        if (is.null(term$missing))
          stop("record ", which(gone)[1], " has no value of '", term$column, "'")
        add[gone] <- term$missing[k]
      }
      total[, k] <- total[, k] + add
    }
  }
  total
}

tacenda_level <- function(text, gone, term, k) {
  place <- match(text, term$levels)
  add <- term$values[[k]][place]
  strange <- is.na(place) & !gone
  if (any(strange)) {
    if (is.null(term$other))
      stop("record ", which(strange)[1], " has an undeclared level of '", term$column, "'")
    add[strange] <- term$other[k]
  }
  add
}

tacenda_number <- function(cell, text, gone, term, k) {
  x <- if (is.numeric(cell)) cell else as.numeric(ifelse(gone, NA, text))
  x[gone] <- 0
  x <- pmin(pmax(x, term$low), term$high)
  if (term$term == "wave") {
    angle <- 2 * pi * (x / term$period)
    return(term$sine[k] * sin(angle) + term$cosine[k] * cos(angle))
  }
  z <- if (term$log) log1p(x) else x
  if (!is.null(term$period)) z <- z %% term$period
  n <- length(term$at)
  place <- pmin(pmax(findInterval(z, term$at), 1), n - 1)
  a <- term$at[place]
  v <- term$values[[k]]
  add <- v[place] + (z - a) / (term$at[place + 1] - a) * (v[place + 1] - v[place])
  for (j in seq_along(term$atoms)) add[x == term$atoms[j]] <- term$atom_values[[k]][j]
  add
}

tacenda_predict <- function(data, model = tacenda_model) {
  s <- tacenda_terms(data, model)
  out <- model$output
  if (out$kind == "number") {
    s <- s[, 1]
    u <- out$units
    y <- u$centre + u$reach * (if (u$log_scores) exp(s) else s)
    if (!is.null(u$low)) y <- pmin(pmax(y, u$low), u$high)
    return(data.frame(prediction = y))
  }
  if (out$kind == "hazards") {
    hazard <- plogis(outer(s[, 1], out$cuts, "-"))
    survival <- t(apply(1 - hazard, 1, cumprod))
    if (length(out$cuts) == 1) survival <- t(survival)
    return(setNames(as.data.frame(survival), paste("survival", out$periods)))
  }
  if (out$kind == "ordered") {
    above <- plogis(outer(s[, 1], out$cuts, "-"))
    p <- cbind(1, above) - cbind(above, 0)
  } else if (ncol(s) == 1) {
    p <- if (out$probabilities) cbind(1 - plogis(s[, 1]), plogis(s[, 1])) else cbind(-s, s)
    best <- ifelse(s[, 1] >= 0, 2, 1)
  } else if (out$probabilities) {
    e <- exp(s - apply(s, 1, max))
    p <- e / rowSums(e)
  } else {
    p <- s
  }
  if (out$kind == "ordered" || ncol(s) > 1) best <- max.col(p, ties.method = "first")
  word <- if (out$probabilities) "probability" else "score"
  found <- data.frame(out$classes[best], p, check.names = FALSE)
  setNames(found, c("prediction", paste(word, out$classes)))
}

if (sys.nframe() == 0L && length(commandArgs(TRUE)) == 1L) {
  table <- read.csv(commandArgs(TRUE)[1], colClasses = "character", check.names = FALSE,
                    na.strings = tacenda_model$missing_values, encoding = "UTF-8")
  write.csv(format(tacenda_predict(table), digits = 17), row.names = FALSE)
}
"""


def script(model: Portable) -> str:
    """The whole script: the promise in comments, the model as a list, and what predicts."""
    plain = model.to_plain()
    for term in plain["terms"]:  # by score: values[[k]]
        for name in ("values", "atom_values"):
            if name in term:
                term[name] = [list(column) for column in zip(*term[name], strict=True)]
        if "low" in term and term["low"] is None:
            term["low"], term["high"] = -math.inf, math.inf
    promise, source = plain.pop("promise"), plain.pop("source")
    facts = {"promise": promise, "source": source}
    head = [f"# {model.name}, written by Tacenda for base R", "#"]
    head += [f"# {line}" for line in json.dumps(facts, indent=1, ensure_ascii=True).splitlines()]
    head += ["#", "# source('model.R'); tacenda_predict(data)", ""]
    return "\n".join([*head, f"tacenda_model <- {_literal(plain)}"]) + "\n" + _CODE


def _literal(value: Any) -> str:
    """A plain value as R writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return _number(float(value))
    if isinstance(value, dict):
        return f"list({', '.join(f'{_name(k)} = {_literal(v)}' for k, v in value.items())})"
    if all(isinstance(v, str) for v in value):
        return f"c({', '.join(_text(v) for v in value)})" if value else "character(0)"
    if all(isinstance(v, int | float) for v in value):
        return f"c({', '.join(_number(float(v)) for v in value)})"
    return f"list({', '.join(_literal(v) for v in value)})"


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "Inf" if value > 0 else "-Inf"


def _text(value: str) -> str:
    """ASCII only, so that the script reads alike in every locale."""
    return json.dumps(value, ensure_ascii=True) if _plane(value) else _wide(value)


def _plane(value: str) -> bool:
    return all(ord(letter) < 0x10000 for letter in value)


def _wide(value: str) -> str:
    return '"' + "".join(f"\\U{{{ord(letter):x}}}" for letter in value) + '"'


def _name(value: str) -> str:
    return f"`{value}`"
