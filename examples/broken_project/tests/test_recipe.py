import unittest

from kitchen.recipe import flour_in_grams


class RecipeTest(unittest.TestCase):
    def test_flour_for_two_is_half_of_that_for_four(self):
        self.assertEqual(flour_in_grams(1, 2) * 2, flour_in_grams(1, 4))
