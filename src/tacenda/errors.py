"""Every exception that Tacenda raises on purpose, and its warnings.

TacendaError
├── InputError (ValueError)       a parameter or a data file is wrong: which name, which rule,
│   │                             what was found, what to do
│   └── UnsupportedError          the parts are fine but do not go together
│                                 (loss, regulariser, algorithm, graph)
├── PrivacyError                  a guarantee cannot be given or was about to be broken
│   ├── BudgetError               a release would exceed the budget; raised before noise is drawn
│   └── LeakError (TypeError)     something tried to take a secret past the one door
├── StateError                    a checkpoint, ledger or run folder is damaged,
│                                 or does not belong here
└── NetworkError                  a peer or transport failed
    └── EngineError               a cluster for independent runs is away, or its workers are of no
                                  use; what is finished is stored

DeclarationWarning (UserWarning)  something public was not declared, so a default or the data
                                  themselves took its place
WeakPrivacyWarning (UserWarning)  a budget that promises next to nothing, or noise above all that
                                  the records can say
EngineWarning (UserWarning)       a worker was lost and its run is made again, or there is none
ConvergenceWarning (UserWarning)  the settings miss a sufficient condition for convergence
LedgerWarning (UserWarning)       how a ledger found the account of a run, or that its file was
                                  open to others
"""


class TacendaError(Exception):
    """Root of all errors raised by this package.

    Examples
    --------
    >>> import tacenda as tc
    >>> try:
    ...     tc.Privacy(epsilon=-1.0)
    ... except tc.errors.TacendaError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(TacendaError, ValueError):
    """A parameter or an input file is wrong.

    The message names the field, the rule, the value found and what to do.
    """


class UnsupportedError(InputError):
    """Parts that are valid by themselves do not go together."""


class PrivacyError(TacendaError):
    """A privacy guarantee cannot be given."""


class BudgetError(PrivacyError):
    """A release would exceed the budget; no noise was drawn."""


class LeakError(PrivacyError, TypeError):
    """An attempt to use a private value without a release that adds noise."""


class StateError(TacendaError):
    """A stored state is damaged or does not belong to this run."""


class NetworkError(TacendaError):
    """A peer or a transport failed."""


class EngineError(NetworkError):
    """A cluster for independent runs is away, or its workers are of no use."""


class DeclarationWarning(UserWarning):
    """Something public was not declared, so a default or the data themselves took its place."""


class WeakPrivacyWarning(UserWarning):
    """A budget that promises next to nothing, or noise larger than all that the records can say."""


class ConvergenceWarning(UserWarning):
    """The settings do not meet a sufficient condition for convergence."""


class EngineWarning(UserWarning):
    """A worker was lost and its run is made again, or there is no worker at the moment."""


class LedgerWarning(UserWarning):
    """How a ledger found the account of a run, or that its file was open to others."""
