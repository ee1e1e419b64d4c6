"""Landmarks on the coins of a photograph."""

from .consume import Landmark, locate
from .predict import predict_landmarks
from .vit import LandmarkHead

__all__ = ["Landmark", "LandmarkHead", "locate", "predict_landmarks"]
