import unittest

from kitchen.units import kilograms_to_grams, litres_to_millilitres, tablespoons_to_teaspoons


class UnitsTest(unittest.TestCase):
    def test_two_kilograms_in_grams(self):
        self.assertEqual(kilograms_to_grams(2), 2000)

    def test_half_a_litre_in_millilitres(self):
        self.assertEqual(litres_to_millilitres(0.5), 500)

    def test_four_tablespoons_in_teaspoons(self):
        self.assertEqual(tablespoons_to_teaspoons(4), 12)
