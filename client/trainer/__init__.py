"""The site's trainer: one GRPO round on its own states. Importing it loads torch; TRL loads on the first round."""

from client.trainer.round import RoundCancelled, train_round
from client.trainer.settings import check_round

__all__ = ["RoundCancelled", "check_round", "train_round"]
