"""A table of the coins, for people."""

from dataclasses import dataclass

from .ops import overlap, soft_argmax
from .vit import LandmarkHead


@dataclass
class CoinReport:
    head: LandmarkHead
    good: float = 0.35  # overlap from which a coin counts as found

    def show(self, crops, masks):
        """Prints a line per coin; returns the scores."""
        scores = []
        for i, (crop, mask) in enumerate(zip(crops, masks)):
            heatmaps, logits = self.head(crop, mask)
            centre = soft_argmax(heatmaps).mean(axis=0)
            score = float(overlap(logits, mask))
            verdict = "ok" if score >= self.good else "check"
            print(f"coin {i:2d}  at ({float(centre[0]):.2f}, {float(centre[1]):.2f})  overlap {score:.2f}  {verdict}")
            scores.append(score)
        return scores
