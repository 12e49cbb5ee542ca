"""The figures and quirks of the reference's step reward, as data, and the options that change it.

The quirks are kept so that a training run here and one there see the same rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from r1_router.errors import ConfigError
from r1_router.scoring import is_number

ROUTE_STEP = "ret"
ANSWER_STEPS = ("ans", "final")
"""Published rows call every answering step `ans`, rows made here the last one `final`; both are paid alike."""

ROUTE_PARTS = ("query", "route", "format", "stop", "cost")
ANSWER_PARTS = ("answer", "format")
"""The parts of a reward, in every reward of that kind of step, so that a log has no gaps."""

QUERY_WEIGHT = 0.5
ROUTE_WEIGHT = 0.5
SHORT_GOLD_WORDS = 5
"""A gold of at most so many words is met in full or not at all: half of a name is no answer."""

WORD_GAP = " "
"""Quirk: a gold's words are what single spaces part, so an outer or a doubled space makes it a word longer."""

TIDY_GOLD: Callable[[str], str] = str
"""Quirk: nothing is done to a gold sub-question or retriever, while the reply is lower-cased and stripped.

So a capital in a gold sub-question costs similarity, and one in a gold retriever the whole route. The released rows
are in lower case.
"""

GOLD_ROUTES_READ = 1
"""Quirk: of the gold's retrievers only the first counts; where it has none, a reply that names one is a failure."""

NAMES_PAID = 1
"""Quirk: a reply may name several retrievers, but earns nothing for them, the gold's among them or named twice."""

NAMES_WITH_NONE = 1
"""Quirk: `none` beside any name, even another `none`, is refused; inference lets a later `none` pass."""

ANSWER_GOLD = str
"""Quirk: an answer's gold that is no text (a number, a range) cannot be used, though the metric reads both."""

GOLDS_PAID_BY_RECALL = 1
"""Quirk: a long gold pays its recall where it stands alone; beside a second gold only full recall is paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardOptions:
    """Changes to the reference's reward, all off by default; weights are shares of its full 1, from 0 to 1.

    Raises ConfigError for a weight outside.
    """

    several_routes: bool = False
    """Any of the target's retrievers is right: a fact that stands in prose and in a table can be asked of either."""

    format_weight: float = 0.0
    """The paper's format term: paid for exactly the form that is trained, so that text around the tags, or a tag
    within the thought, costs something before it breaks a reply."""

    consistent_none: bool = False
    """A none sub-question with a retriever, or none with a sub-question, is refused as inference refuses it; the
    reference pays up to 0.5 and the similarity for a plan that is never carried out."""

    retrieval_cost: float = 0.0
    """Charged for each knowledge base asked, so that stopping pays where nothing is missing. A refused reply is
    charged for all of them: breaking the form must not be the cheap way out."""

    stop_bonus: float = 0.0
    """Paid for a stop where the target stops. In the released rows that is one routing step in six or seven, and a
    stop that is missed costs all the calls that are left, which the reference's reward cannot see."""

    soft_long_golds: bool = False
    """Each gold pays by its own length and the best counts: several long golds pay recall as one does, where all or
    nothing leaves a group of samples without a difference to learn from."""

    def __post_init__(self) -> None:
        for name in ("format_weight", "retrieval_cost", "stop_bonus"):
            weight = getattr(self, name)
            if not (is_number(weight) and 0 <= weight <= 1):
                raise ConfigError(f"{name} must be a number from 0 to 1, found {weight!r}; mend the reward options.")


REFERENCE = RewardOptions()
"""The reference's reward as it is."""
