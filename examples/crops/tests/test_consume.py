import numpy as np

from crops.consume import Landmark, suppress, to_photo
from crops.data import Box


def test_points_land_in_their_window():
    points = to_photo(np.array([[0.0, 0.0], [0.5, 1.0]], np.float32), Box(top=10, left=20, size=40))
    assert points.tolist() == [[10.0, 20.0], [30.0, 60.0]]


def test_the_better_of_two_close_landmarks_stays():
    weak, strong, far = Landmark(0, 5.0, 5.0, 0.2), Landmark(1, 5.5, 5.0, 0.9), Landmark(2, 50.0, 5.0, 0.1)
    assert suppress([weak, strong, far], radius=2.0) == [strong, far]
